-- letter: one letter.
-- arguments  letter_id
-- answers    letter | nothing
local function operation(arguments)
  return {redis.call('HGET', LETTERS, arguments[1]) or nil}
end
