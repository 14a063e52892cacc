-- strike: take a life of an instance off the roster; a newer one stays.
-- arguments  instance_id, incarnation
-- answers    done
local function operation(arguments)
  if redis.call('HGET', KNOWN, arguments[1]) == arguments[2] then
    redis.call('HDEL', KNOWN, arguments[1])
  end
  return {'done'}
end
