-- cancel: win the attempt back from its node; the slot stays held until the node lets go.
-- arguments  attempt_id, error, grace_ms
-- answers    won job_id owner | ended job_id outcome error | stale reason | cold
local function operation(arguments)
  if not version then return {'cold'} end
  local attempt_id, problem, grace_ms = unpack(arguments)
  local ended = read(ENDED, attempt_id)
  if ended then return {'ended', ended[JOB_ID], ended[OUTCOME], ended[ERROR]} end
  local attempt = read(HELD, attempt_id)
  if not attempt then return {'stale', 'unknown_job'} end
  if attempt[STATE] ~= 'CANCELLING' then cancel(attempt_id, attempt, problem, grace_ms) end
  return {'won', attempt[JOB_ID], attempt[OWNER]}
end
