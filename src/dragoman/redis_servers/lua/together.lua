-- together: several operations, one after the other, each as if it had been called by itself; one that fails
-- spares the others. A call by itself costs Redis as much again as most of the operations do.
-- keys     of each operation
-- args     1 three bytes for each operation: its number, how many keys it has (0: those of the one before), how
--          many arguments; then their arguments
-- answers  what each answers, or its error
local function together(keys, args)
  local plan, answers, own, key, arg = args[1], {}, nil, 0, 1
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  for at = 1, #plan, 3 do
    local number, its_keys, its_args = string.byte(plan, at, at + 2)
    if its_keys > 0 then own = {unpack(keys, key + 1, key + its_keys)} end
    local went_well, answer = pcall(OPERATIONS[number], own, {unpack(args, arg + 1, arg + its_args)}, now)
    key, arg = key + its_keys, arg + its_args
    if not went_well and type(answer) ~= 'table' then answer = {err = 'ERR ' .. tostring(answer)} end
    if answer == nil then answer = false end
    answers[#answers + 1] = answer
  end
  return answers
end

register('together', together)
register('together_allow_oom', together, 'allow-oom')
