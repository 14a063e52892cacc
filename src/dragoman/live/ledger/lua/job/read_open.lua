-- read_open: a job that has not ended, with what a node works on.
-- arguments  job_id
-- answers    packed spec input at_ms | nothing
local function operation(arguments)
  local input = redis.call('HGET', INPUTS, arguments[1])
  local packed = input and redis.call('HGET', JOBS, arguments[1])
  return packed and {packed, redis.call('HGET', SPECS, arguments[1]) or '', input, now_ms} or {}
end
