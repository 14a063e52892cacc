-- counts: how many letters each instance has.
-- answers    instance_id, letters, ...
local function operation()
  return redis.call('HGETALL', COUNTS)
end
