-- enter: sessions live on; those that lapsed are struck out.
-- arguments  session_id, ...
-- answers    done
local function operation(session_ids)
  redis.call('ZREMRANGEBYSCORE', SESSIONS, '-inf', now_ms)
  for _, session_id in ipairs(session_ids) do zadd(SESSIONS, now_ms + keep_ms, session_id) end
  return {'done'}
end
