-- shard_size: how many jobs, bindings and inputs the shard keeps.
-- answers    jobs, bindings, inputs
local function operation()
  return {redis.call('HLEN', JOBS), redis.call('HLEN', BINDINGS), redis.call('HLEN', INPUTS)}
end
