-- drain: take notes out of the inbox of an instance that was taken down.
-- arguments  token, incarnation, count, cleaner_ttl_ms
-- answers    drained more note, ... | fenced
local function operation(arguments)
  local token, incarnation, count, cleaner_ttl_ms = unpack(arguments)
  if not is_cleaner(token, incarnation) then return {'fenced'} end
  hset(RECORD, 'cleaner_until_ms', now_ms + cleaner_ttl_ms)
  local answer = {'drained', 0}
  for _, entry in ipairs(redis.call('XRANGE', INBOX, '-', '+', 'COUNT', count)) do
    redis.call('XDEL', INBOX, entry[1])
    table.insert(answer, entry[2][2])
  end
  if redis.call('XLEN', INBOX) > 0 then
    answer[2] = 1
  else
    redis.call('DEL', INBOX)
  end
  return answer
end
