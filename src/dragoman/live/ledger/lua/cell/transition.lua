-- transition: the node accepted the attempt, or runs it.
-- arguments  attempt_id, node_id, epoch, state, number
-- along      attempt_ids to settle
-- answers    moved job_id at_ms | repeat job_id at_ms | stale reason | cold
local function operation(arguments)
  if not version then return {'cold'} end
  settle(along)
  local attempt_id, node_id, epoch, state, number = unpack(arguments)
  local attempt, refused = attempt_of(attempt_id, node_id, epoch)
  if not attempt then return refused end
  if attempt[STATE] == 'CANCELLING' then
    acknowledge(attempt, number or 0)
    write_held(attempt_id, attempt)
    return {'stale', 'late'}
  end
  if ORDER[state] <= ORDER[attempt[STATE]] then return {'repeat', attempt[JOB_ID], now_ms} end
  attempt[STATE] = state
  accept(attempt, number or 0)
  if state == 'RUNNING' then attempt[RUNNING_MS] = now_ms end
  write_held(attempt_id, attempt)
  set_due(attempt_id, attempt[DUE_AT_MS])
  return {'moved', attempt[JOB_ID], now_ms}
end
