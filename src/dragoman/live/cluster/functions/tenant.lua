-- How much of its limit each instance has for a tenant: instance_id -> size, a space, until when it counts.
local BLOCKS

local function tenant(keys)
  BLOCKS = {sessions = keys[1], in_flight = keys[2]}
end

-- hold: have a block of the tenant's limit: what is used in any case, of what is wanted what the others leave.
-- arguments  what, instance_id, used, wanted, limit, ttl_ms
-- answers    size of the block, of all blocks
local function hold(arguments)
  local what, instance_id, used, wanted, limit, ttl_ms = unpack(arguments)
  local blocks = BLOCKS[what]
  local others = 0
  local known = redis.call('HGETALL', blocks)
  for i = 1, #known, 2 do
    local size, till = known[i + 1]:match('^(%d+) (%d+)$')
    if tonumber(till) <= now_ms then
      redis.call('HDEL', blocks, known[i])
    elseif known[i] ~= instance_id then
      others = others + size
    end
  end
  local size = math.max(used, math.min(wanted, math.max(0, limit - others)))
  if size == 0 then
    redis.call('HDEL', blocks, instance_id)
  else
    redis.call('HSET', blocks, instance_id, string.format('%d %.0f', size, now_ms + ttl_ms))
    -- The key stays until its last block runs out.
    if redis.call('PTTL', blocks) < ttl_ms then redis.call('PEXPIRE', blocks, ttl_ms) end
  end
  return {size, others + size}
end

register('hold', on(tenant, hold))
