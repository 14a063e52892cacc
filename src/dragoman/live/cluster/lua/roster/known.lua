-- known: every instance on the roster.
-- answers    instance_id, incarnation, ...
local function operation()
  return redis.call('HGETALL', KNOWN)
end
