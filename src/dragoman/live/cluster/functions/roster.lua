-- The names of all instances that are present or not yet cleaned up after, with their incarnations.
local KNOWN

local function roster(keys)
  KNOWN = keys[1]
end

-- enter: put an instance on the roster.
-- arguments  instance_id, incarnation
-- answers    done
local function enter(arguments)
  hset(KNOWN, arguments[1], arguments[2])
  return {'done'}
end

-- strike: take a life of an instance off the roster; a newer one stays.
-- arguments  instance_id, incarnation
-- answers    done
local function strike(arguments)
  if redis.call('HGET', KNOWN, arguments[1]) == arguments[2] then
    redis.call('HDEL', KNOWN, arguments[1])
  end
  return {'done'}
end

-- known: every instance on the roster.
-- answers    instance_id, incarnation, ...
local function known()
  return redis.call('HGETALL', KNOWN)
end

register('enter', on(roster, enter), 'allow-oom')
register('strike', on(roster, strike), 'allow-oom')
register('known', on(roster, known), 'no-writes')
