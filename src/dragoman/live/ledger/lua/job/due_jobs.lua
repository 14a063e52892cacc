-- due_jobs: jobs the sweep must look at now; ended ones are released and forgotten on the way.
-- arguments  limit
-- along      job_ids to release
-- answers    {job_id, packed, spec, result}, ...
local function operation(arguments)
  release(along)
  local found = {}
  for _, job_id in ipairs(
    redis.call('ZRANGEBYSCORE', DUE, '-inf', now_ms, 'LIMIT', 0, arguments[1])) do
    local job = read(job_id)
    if not job then
      redis.call('ZREM', DUE, job_id)
    elseif not ended(job) then
      found[#found + 1] = {job_id, record(job_id)}
    else
      release_if_time(job_id, job)
      if job[STATE] == 'RELEASED' and job[FORGET_AT_MS] <= now_ms then forget(job_id, job) end
    end
  end
  return found
end
