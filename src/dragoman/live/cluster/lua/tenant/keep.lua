-- keep: renew leases, and hold again those that were forgotten: what they are for does exist.
-- arguments  what, ttl_ms, lease_ids
-- answers    count
local function operation(arguments)
  local what, ttl_ms, lease_ids = unpack(arguments)
  for _, lease_id in ipairs(lease_ids) do hold(LEASES[what], lease_id, ttl_ms) end
  return {held(LEASES[what])}
end
