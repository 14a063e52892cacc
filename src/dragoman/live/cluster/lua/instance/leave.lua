-- leave: say goodbye. An empty inbox goes with the instance, one with notes waits for a peer.
-- arguments  incarnation
-- answers    gone | left | superseded | taken_down
local function operation(arguments)
  local no = refused(arguments[1])
  if no then return no end
  if redis.call('XLEN', INBOX) == 0 then
    redis.call('DEL', RECORD, INBOX)
    return {'gone'}
  end
  hset(RECORD, 'standing', 'left')
  return {'left'}
end
