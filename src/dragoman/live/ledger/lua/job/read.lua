-- read: a job's record.
-- arguments  job_id
-- answers    packed spec result | nothing
local function operation(arguments)
  local packed = redis.call('HGET', JOBS, arguments[1])
  return packed and {record(arguments[1], packed)} or {}
end
