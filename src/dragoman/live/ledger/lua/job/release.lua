-- release: deliveries were acknowledged; payloads go, at once or when the binding's lease ends.
-- arguments  job_id, ...
-- answers    done
local function operation(job_ids)
  release(job_ids)
  return {'done'}
end
