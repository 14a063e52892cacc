-- strike_out: notes are done with; nothing else is handed out.
-- arguments  incarnation, entry_id, ...
-- answers    done | superseded | taken_down
local function operation(arguments)
  local no = refused(table.remove(arguments, 1))
  if no then return no end
  redis.call('XACK', INBOX, GROUP, unpack(arguments))
  redis.call('XDEL', INBOX, unpack(arguments))
  return {'done'}
end
