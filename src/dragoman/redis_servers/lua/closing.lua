-- Runs the operation that the script is for, and sees to the time to live of what it wrote.
local answer = operation(terms[3], ARGV[2], ARGV[3])
for key in pairs(written) do
  local left_ms = redis.call('PTTL', key)
  if left_ms ~= -2 and left_ms < keep_ms then
    -- Half as long again, so that a busy key is not renewed by every call.
    local kept_ms = math.floor(keep_ms * 1.5)
    if key == KEYS[1] then
      for _, each in ipairs(KEYS) do redis.call('PEXPIRE', each, kept_ms) end
    else
      redis.call('PEXPIRE', key, math.max(kept_ms, redis.call('PTTL', KEYS[1])))
    end
  end
end
return answer
