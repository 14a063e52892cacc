-- read_input: what a node works on, while the job has not ended.
-- arguments  job_id
-- answers    input | nothing
local function operation(arguments)
  return {redis.call('HGET', INPUTS, arguments[1]) or nil}
end
