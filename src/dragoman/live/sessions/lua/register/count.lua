-- count: how many sessions have not lapsed.
-- answers    number
local function operation()
  return redis.call('ZCOUNT', SESSIONS, '(' .. string.format('%.0f', now_ms), '+inf')
end
