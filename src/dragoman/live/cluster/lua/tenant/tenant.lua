-- A tenant's leases, each scored with the time it runs out: a holder that dies counts no longer.
local LEASES = {sessions = KEYS[1], in_flight = KEYS[2]}

-- How many leases there are, without those that have run out.
local function held(leases)
  redis.call('ZREMRANGEBYSCORE', leases, '-inf', now_ms)
  return redis.call('ZCARD', leases)
end

-- The key stays until its last lease runs out.
local function hold(leases, lease_id, ttl_ms)
  redis.call('ZADD', leases, now_ms + ttl_ms, lease_id)
  if redis.call('PTTL', leases) < ttl_ms then redis.call('PEXPIRE', leases, ttl_ms) end
end
