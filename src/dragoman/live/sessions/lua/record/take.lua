-- take: become the owner; the epoch rises unless the asker is the owner already.
-- arguments  instance_id, connection_id, epoch (of the owner to take it from; -1: of any)
-- answers    {field, value, ...}, {dropped delivery, ...}, {the owner before: instance_id,
--            connection_id, epoch} | changed_hands; nothing when the session is not known
local function operation(arguments)
  local instance_id, connection_id, epoch = unpack(arguments)
  local before = redis.call('HMGET', RECORD, INSTANCE, CONNECTION, EPOCH)
  if not before[1] then return {} end
  written[RECORD] = true
  if before[1] ~= instance_id or before[2] ~= connection_id then
    if epoch and epoch >= 0 and tonumber(before[3]) ~= epoch then return {'changed_hands'} end
    redis.call('HSET', RECORD, EPOCH, tonumber(before[3]) + 1,
      INSTANCE, instance_id, CONNECTION, connection_id)
    revised()
  end
  return {redis.call('HGETALL', RECORD), redis.call('LRANGE', DROPPED, 0, -1), before}
end
