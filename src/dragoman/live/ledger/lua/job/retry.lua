-- retry: the attempt is over without success; the job is CREATED again, driven by instance_id.
-- arguments  job_id, attempt_id, error, times, instance_id ('': as before), claim_ms, preempted
-- answers    retrying packed spec result | not_current packed spec result
--            | ended packed spec result | gone
-- An attempt that was never bound is remembered, so that it can no longer be.
local function operation(arguments)
  local job_id, attempt_id, problem, times, instance_id, claim_ms, preempted = unpack(arguments)
  local job = read(job_id)
  if not job then return {'gone'} end
  if ended(job) then return {'ended', record(job_id)} end
  if job[CURRENT] ~= attempt_id then
    if not past_of(job, attempt_id) then
      table.insert(job[ATTEMPTS],
        {attempt_id, -1, '', false, true, '', problem, 0, 0, 0, 0})
      write(job_id, job)
    end
    return {'not_current', record(job_id)}
  end
  close_attempt(job, 'failed', problem, times, preempted)
  job[STATE] = 'CREATED'
  if preempted then job[PREEMPTIONS] = job[PREEMPTIONS] + 1 end
  if instance_id ~= '' then job[CLAIMED_BY] = instance_id end
  job[CLAIM_UNTIL_MS] = now_ms + claim_ms
  if job[BATCH_TIME] then job[TOTAL_UNTIL_MS] = NO_LIMIT end
  return {'retrying', record(job_id, write(job_id, job))}
end
