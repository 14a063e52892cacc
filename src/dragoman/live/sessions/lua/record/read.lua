-- read: a session's record.
-- answers    {field, value, ...}, {dropped delivery, ...}; both empty when it is not known
local function operation()
  return {redis.call('HGETALL', RECORD), redis.call('LRANGE', DROPPED, 0, -1)}
end
