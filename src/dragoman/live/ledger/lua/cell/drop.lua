-- drop: give back a slot whose node was never told; also ends waiting for an inheritance.
-- arguments  attempt_id
-- answers    dropped freed inherited | stale reason | cold
local function operation(arguments)
  if not version then return {'cold'} end
  local attempt_id = arguments[1]
  disinherit(attempt_id)
  local freed = freeing()
  local attempt = read(HELD, attempt_id)
  if attempt then
    if attempt[ACKED] or attempt[STATE] ~= 'DISPATCHED' then return {'stale', 'old_attempt'} end
    free(read_seat(attempt[INDEX]), attempt_id, attempt, freed)
    watch(attempt_id)
  end
  return {'dropped', freed.slots, freed.inherited}
end
