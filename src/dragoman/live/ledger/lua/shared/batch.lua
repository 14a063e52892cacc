-- Runs the operations of one call, in order.
-- Answers one element an operation: {1, answer...}, or {0, message} when it failed; an operation
-- that fails does not keep the others from running.
local answers = {}
local next_blob = 3
for position, operation in ipairs(cmsgpack.unpack(ARGV[2])) do
  local name, arguments, blobs = operation[1], operation[2], operation[3]
  local fine, answer = pcall(
    operations[name], arguments, ARGV[next_blob], ARGV[next_blob + 1])
  next_blob = next_blob + blobs
  if fine then
    answers[position] = {1, answer}
  else
    answers[position] = {0, type(answer) == 'table' and answer.err or tostring(answer)}
  end
end

for key in pairs(written) do
  local left_ms = redis.call('PTTL', key)
  if left_ms ~= -2 and left_ms < keep_ms then
    -- Half as long again, so that a busy key is not renewed by every call.
    redis.call('PEXPIRE', key, math.floor(keep_ms * 1.5))
  end
end
return answers
