-- due_attempts: attempts the sweep must look at now, the longest due first.
-- arguments  limit
-- answers    {attempt_id, packed, result}, ...
local function operation(arguments)
  local found = {}
  for _, attempt_id in ipairs(
    redis.call('ZRANGEBYSCORE', DUE, '-inf', now_ms, 'LIMIT', 0, arguments[1])) do
    found[#found + 1] = {attempt_id, stored(attempt_id)}
  end
  return found
end
