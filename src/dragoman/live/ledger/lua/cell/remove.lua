-- remove: lose the node and give up its seat.
-- arguments  node_id, epoch
-- answers    lost attempts freed inherited | stale reason | not_seated | cold
local function operation(arguments)
  local seat, refused = seat_of(arguments[1], arguments[2])
  if not seat then return refused end
  local answer = lose(seat)
  redis.call('HDEL', SEATS, 'n' .. arguments[1], 'i' .. seat.index, 'f' .. seat.index)
  clear_seat(seat.index)
  discard_if_empty()
  return answer
end
