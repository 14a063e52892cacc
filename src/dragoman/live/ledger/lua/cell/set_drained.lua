-- set_drained: an operator's drain or resume; a drained seat is granted no slot.
-- arguments  node_id, drained
-- answers    done | not_seated | cold
local function operation(arguments)
  if not version then return {'cold'} end
  local index = redis.call('HGET', SEATS, 'n' .. arguments[1])
  local seat = index and read_seat(tonumber(index))
  if not seat then return {'not_seated'} end
  seat.drained = arguments[2]
  write_seat(seat)
  set_version(version + 1)
  return {'done'}
end
