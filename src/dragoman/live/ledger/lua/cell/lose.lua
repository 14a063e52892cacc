-- lose: the node did not come back in time; everything it held is ended.
-- arguments  node_id, epoch, only_if_silent
-- answers    lost attempts freed inherited | stale reason | not_seated | cold
local function operation(arguments)
  local seat, refused = seat_of(arguments[1], arguments[2])
  if not seat then return refused end
  if arguments[3] and seat.alive_until_ms > now_ms then return {'stale', 'old_attempt'} end
  return lose(seat)
end
