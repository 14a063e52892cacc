-- recent: the names of a tenant's newest jobs in this shard, newest first.
-- arguments  the first name that no longer counts, the tenant, limit
-- answers    created_at_ms \0 job_id, ...
local function operation(arguments)
  local before, tenant, limit = unpack(arguments)
  local found = redis.call('ZREVRANGEBYLEX', RECENT, '(' .. before, '[' .. tenant .. '\0',
    'LIMIT', 0, limit)
  for position, name in ipairs(found) do found[position] = name:sub(#tenant + 2) end
  return found
end
