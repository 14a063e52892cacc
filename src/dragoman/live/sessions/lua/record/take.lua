-- take: become the owner; the epoch rises unless the asker is the owner already.
-- arguments  instance_id, connection_id
-- answers    field, value, ...; nothing when the session is not known
local function operation(arguments)
  local instance_id, connection_id = unpack(arguments)
  local owner = redis.call('HMGET', RECORD, EPOCH, INSTANCE, CONNECTION)
  if not owner[1] then return {} end
  written[RECORD] = true
  if owner[2] ~= instance_id or owner[3] ~= connection_id then
    redis.call('HSET', RECORD, EPOCH, tonumber(owner[1]) + 1,
      INSTANCE, instance_id, CONNECTION, connection_id)
  end
  return redis.call('HGETALL', RECORD)
end
