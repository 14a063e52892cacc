-- end: give the job its one end, from its current attempt, or from none when it has none.
-- arguments  job_id, attempt_id ('' for none), outcome, error, times, lease_ms, retention_ms
-- blobs      the result; empty for none
-- along      job_ids to release
-- answers    ended_now packed spec | ended packed spec result
--            | not_current packed spec result | gone
local function operation(arguments, output)
  release(along)
  local job_id, attempt_id, outcome, problem, times, lease_ms, retention_ms = unpack(arguments)
  local job = read(job_id)
  if not job then return {'gone'} end
  if ended(job) then return {'ended', record(job_id)} end
  if job[CURRENT] ~= attempt_id then return {'not_current', record(job_id)} end
  if attempt_id ~= '' then close_attempt(job, outcome, problem, times, false) end
  redis.call('HDEL', INPUTS, job_id)
  if #output > 0 then hset(OUTPUTS, job_id, output) end
  job[STATE] = 'FINISHED'
  job[OUTCOME], job[ERROR], job[FINISHED_AT_MS] = outcome, problem, now_ms
  if outcome == 'success' then
    job[LEASE_UNTIL_MS] = now_ms + lease_ms
  else
    job[LEASE_UNTIL_MS] = now_ms
    unbind(job_id, job)
  end
  job[RELEASE_AT_MS] = now_ms + math.max(retention_ms, lease_ms)
  job[FORGET_AT_MS] = job[RELEASE_AT_MS] + lease_ms
  return {'ended_now', write(job_id, job), redis.call('HGET', SPECS, job_id) or ''}
end
