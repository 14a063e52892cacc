-- post: put notes in the inbox, all of them or none, if its instance is present and there is room. Each says
-- which life of the instance it was written to.
-- arguments  inbox_max
-- blobs      note, ...
-- answers    posted | full | gone
local function operation(arguments)
  local known = redis.call('HMGET', RECORD, 'standing', 'until_ms', 'incarnation')
  if known[1] ~= 'up' or tonumber(known[2]) <= now_ms then return {'gone'} end
  if redis.call('XLEN', INBOX) + #ARGV - 1 > arguments[1] then return {'full'} end
  written[INBOX] = true
  for i = 2, #ARGV do
    redis.call('XADD', INBOX, '*', 'note', ARGV[i], 'to', known[3])
  end
  return {'posted'}
end
