-- release: deliveries were acknowledged; payloads go, at once or when the binding's lease ends.
-- arguments  job_id, ...
-- answers    done
local function operation(job_ids)
  for _, job_id in ipairs(job_ids) do
    local job = read(job_id)
    if job and job[STATE] == 'FINISHED' then
      job[RELEASE_AT_MS] = math.min(job[RELEASE_AT_MS], job[LEASE_UNTIL_MS])
      release_if_time(job_id, job)
    end
  end
  return {'done'}
end
