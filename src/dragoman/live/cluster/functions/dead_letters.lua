-- LETTERS leads from a letter's id to when it was buried, a colon, and the letter; ORDER sorts the ids,
-- which begin with when the note was posted and end with @instance; COUNTS has letters by instance.
local LETTERS, ORDER, COUNTS

local function dead_letters(keys)
  LETTERS, ORDER, COUNTS = keys[1], keys[2], keys[3]
end

local function forget(letter_id)
  redis.call('ZREM', ORDER, letter_id)
  local known = redis.call('HDEL', LETTERS, letter_id)
  if known == 1 then
    local instance_id = letter_id:match('@(.*)$')
    if redis.call('HINCRBY', COUNTS, instance_id, -1) <= 0 then
      redis.call('HDEL', COUNTS, instance_id)
    end
  end
  return known
end

-- bury: keep a note that could not be handled; the oldest ones go when there are too many.
-- arguments  letter_id, instance_id, dead_letters_max
-- blobs      letter
-- answers    done
-- A letter that is there already is left as it is: the burial's first answer may have been lost.
local function bury(arguments, blobs)
  local letter = blobs[1]
  local letter_id, instance_id, dead_letters_max = unpack(arguments)
  if redis.call('HEXISTS', LETTERS, letter_id) == 0 then
    hset(LETTERS, letter_id, string.format('%.0f', now_ms) .. ':' .. letter)
    zadd(ORDER, 0, letter_id)
    written[COUNTS] = true
    redis.call('HINCRBY', COUNTS, instance_id, 1)
    while redis.call('ZCARD', ORDER) > dead_letters_max do
      forget(redis.call('ZRANGE', ORDER, 0, 0)[1])
    end
  end
  return {'done'}
end

-- letters: a page of letters in the order of their ids.
-- arguments  count, the id they come after ('' for the first page)
-- answers    letter_id, letter, ...
local function letters(arguments)
  local count, after = unpack(arguments)
  local answer = {}
  local from = after == '' and '-' or '(' .. after
  for _, letter_id in ipairs(redis.call('ZRANGEBYLEX', ORDER, from, '+', 'LIMIT', 0, count)) do
    table.insert(answer, letter_id)
    table.insert(answer, redis.call('HGET', LETTERS, letter_id))
  end
  return answer
end

-- letter: one letter.
-- arguments  letter_id
-- answers    letter | nothing
local function letter(arguments)
  return {redis.call('HGET', LETTERS, arguments[1]) or nil}
end

-- counts: how many letters each instance has.
-- answers    instance_id, letters, ...
local function counts()
  return redis.call('HGETALL', COUNTS)
end

-- drop: forget letters.
-- arguments  letter_id, ...
-- answers    how many there were
local function drop(letter_ids)
  local dropped = 0
  for _, letter_id in ipairs(letter_ids) do dropped = dropped + forget(letter_id) end
  return {dropped}
end

register('bury', on(dead_letters, bury))
register('letters', on(dead_letters, letters), 'no-writes')
register('letter', on(dead_letters, letter), 'no-writes')
register('counts', on(dead_letters, counts), 'no-writes')
register('drop', on(dead_letters, drop), 'allow-oom')
