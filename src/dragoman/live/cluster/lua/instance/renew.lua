-- renew: stay present; an instance that lapsed is revived if no instance has taken it down.
-- arguments  incarnation, ttl_ms
-- blobs      card
-- answers    renewed revived | superseded | taken_down
local function operation(arguments, card)
  local incarnation, ttl_ms = unpack(arguments)
  local no = refused(incarnation)
  if no then return no end
  local revived = not is_alive()
  appear(incarnation, ttl_ms, card)
  redis.call('HDEL', RECORD, 'suspected_at_ms')
  open_inbox()
  return {'renewed', revived and 1 or 0}
end
