-- renew: go on driving jobs that wait or retry.
-- arguments  job_ids, instance_id, claim_ms
-- answers    the job_ids that are no longer the asker's
local function operation(arguments)
  local refused = {}
  for _, job_id in ipairs(arguments[1]) do
    local job = read(job_id)
    if not job or ended(job) or job[CLAIMED_BY] ~= arguments[2] then
      refused[#refused + 1] = job_id
    elseif job[CURRENT] == '' then
      job[CLAIM_UNTIL_MS] = now_ms + arguments[3]
      write(job_id, job)
    end
  end
  return refused
end
