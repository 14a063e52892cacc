-- A window of time: when it ends, and how many were counted in it. It lives no longer than that.
local WINDOW

local function window(keys)
  WINDOW = keys[1]
end

-- count: count one more, in a new window when the last one has ended.
-- arguments  window_ms
-- answers    count resets_in_ms
local function count(arguments)
  local window_ms = arguments[1]
  local ends_at_ms = tonumber(redis.call('HGET', WINDOW, 'ends_at_ms') or 0)
  if ends_at_ms <= now_ms then
    ends_at_ms = now_ms + window_ms
    redis.call('DEL', WINDOW)
    redis.call('HSET', WINDOW, 'ends_at_ms', ends_at_ms)
    redis.call('PEXPIRE', WINDOW, window_ms)
  end
  return {redis.call('HINCRBY', WINDOW, 'count', 1), ends_at_ms - now_ms}
end

register('count', on(window, count))
