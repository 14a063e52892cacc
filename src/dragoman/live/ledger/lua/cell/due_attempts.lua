-- due_attempts: attempts somebody must look at now, the longest due first.
-- arguments  limit
-- answers    {attempt_id, packed, result}, ...
operations.due_attempts = function(arguments)
  local found = {}
  for _, attempt_id in ipairs(
    redis.call('ZRANGEBYSCORE', DUE, '-inf', now_ms, 'LIMIT', 0, arguments[1])) do
    local record = operations.read_attempt({attempt_id})
    found[#found + 1] = {attempt_id, record[2], record[3]}
  end
  return found
end
