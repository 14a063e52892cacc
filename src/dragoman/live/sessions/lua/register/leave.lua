-- leave: a session is over.
-- arguments  session_id
-- answers    done
local function operation(arguments)
  redis.call('ZREM', SESSIONS, arguments[1])
  return {'done'}
end
