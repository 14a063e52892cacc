-- letters: a page of letters in the order of their ids.
-- arguments  count, the id they come after ('' for the first page)
-- answers    letter_id, letter, ...
local function operation(arguments)
  local count, after = unpack(arguments)
  local answer = {}
  local from = after == '' and '-' or '(' .. after
  for _, letter_id in ipairs(redis.call('ZRANGEBYLEX', ORDER, from, '+', 'LIMIT', 0, count)) do
    table.insert(answer, letter_id)
    table.insert(answer, redis.call('HGET', LETTERS, letter_id))
  end
  return answer
end
