-- amend: change a seat's slots or facts; fewer slots cancel nothing.
-- arguments  node_id, epoch, slots (-1: as before), whether facts change
-- blobs      facts
-- answers    done | stale reason | not_seated | cold
local function operation(arguments, facts)
  local node_id, epoch, slots, new_facts = unpack(arguments)
  local seat, refused = seat_of(node_id, epoch)
  if not seat then return refused end
  if slots >= 0 then seat.slots = slots end
  if new_facts then hset(SEATS, 'f' .. seat.index, facts) end
  write_seat(seat)
  set_version(version + 1)
  return {'done'}
end
