-- post: put a note in the inbox, if its instance is present and there is room.
-- arguments  inbox_max
-- blobs      note
-- answers    posted | full | gone
local function operation(arguments, note)
  if not is_alive() then return {'gone'} end
  if redis.call('XLEN', INBOX) >= arguments[1] then return {'full'} end
  written[INBOX] = true
  redis.call('XADD', INBOX, '*', 'note', note)
  return {'posted'}
end
