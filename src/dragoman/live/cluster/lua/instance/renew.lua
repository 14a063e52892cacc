-- renew: stay present; an instance that lapsed is revived if no instance has taken it down.
-- arguments  incarnation, ttl_ms, when it joined
-- blobs      card
-- answers    renewed revived | superseded | taken_down
local function operation(arguments, card)
  local incarnation, ttl_ms, born_ms = unpack(arguments)
  if is_of_earlier_life(incarnation, born_ms) then redis.call('DEL', RECORD) end
  local no = refused(incarnation)
  if no then return no end
  local revived = not is_alive()
  appear(incarnation, born_ms, ttl_ms, card)
  redis.call('HDEL', RECORD, 'suspected_at_ms')
  open_inbox()
  return {'renewed', revived and 1 or 0}
end
