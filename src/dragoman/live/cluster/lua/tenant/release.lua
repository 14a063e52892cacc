-- release: hold a lease no longer.
-- arguments  what, lease_id
-- answers    done
local function operation(arguments)
  redis.call('ZREM', LEASES[arguments[1]], arguments[2])
  return {'done'}
end
