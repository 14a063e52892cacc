-- disconnect: the node's socket is lost; no slot is granted on it, what it holds is kept.
-- arguments  node_id, epoch
-- answers    done | stale reason | not_seated | cold
local function operation(arguments)
  local seat, refused = seat_of(arguments[1], arguments[2])
  if not seat then return refused end
  seat.online = false
  write_seat(seat)
  set_version(version + 1)
  return {'done'}
end
