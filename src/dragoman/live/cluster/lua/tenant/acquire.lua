-- acquire: hold a lease if the tenant has fewer than the limit; one that is held is renewed.
-- arguments  what, lease_id, limit, ttl_ms
-- answers    held (1 or 0) count
local function operation(arguments)
  local what, lease_id, limit, ttl_ms = unpack(arguments)
  local leases = LEASES[what]
  local count = held(leases)
  if not redis.call('ZSCORE', leases, lease_id) then
    if count >= limit then return {0, count} end
    count = count + 1
  end
  hold(leases, lease_id, ttl_ms)
  return {1, count}
end
