-- read_input: what a node works on, while the job has not ended.
-- arguments  job_id
-- answers    input | nothing
operations.read_input = function(arguments)
  return {redis.call('HGET', INPUTS, arguments[1]) or nil}
end
