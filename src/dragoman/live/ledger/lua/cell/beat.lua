-- beat: renew the leases of what the node lists, and say where the two lists differ.
-- arguments  node_id, epoch, lease_ms, running, number
-- answers    beat lost unknown cancelling freed inherited | beat | stale reason | not_seated | cold
-- A beat never makes a seat: a node the cell does not know, or gave up, must be placed. A beat that
-- comes late says nothing of what the node acknowledged after it.
local function operation(arguments)
  local node_id, epoch, lease_ms, running, number = unpack(arguments)
  number = number or 0
  local seat, refused = seat_of(node_id, epoch)
  if not seat then return refused end
  if not seat.online then return {'not_seated'} end
  seat.alive_until_ms = now_ms + lease_ms
  write_seat(seat)
  if seat.held == 0 and #running == 0 then return {'beat'} end

  local here, seen = names(running), {}
  local lost, cancelling, freed = {}, {}, freeing()
  for _, attempt_id in ipairs(held_by(seat)) do
    local attempt = read(HELD, attempt_id)
    seen[attempt_id] = true
    if here[attempt_id] then
      listed(attempt_id, attempt, number)
      if attempt[STATE] == 'CANCELLING' then add(cancelling, attempt_id, attempt) end
    elseif attempt[STATE] == 'CANCELLING' then
      if acked_before(attempt, number) or attempt[ASKED] then give_up(seat, attempt_id, attempt, freed) end
    elseif acked_before(attempt, number) then
      add(lost, attempt_id, attempt)
      give_up(seat, attempt_id, attempt, freed)
    end
  end
  return {'beat', lost, unmatched(running, seen), cancelling, freed.slots, freed.inherited}
end
