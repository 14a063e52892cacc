-- read: a session's record.
-- answers    field, value, ...; nothing when it is not known
local function operation()
  return redis.call('HGETALL', RECORD)
end
