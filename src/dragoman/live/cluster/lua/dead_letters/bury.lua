-- bury: keep a note that could not be handled; the oldest ones go when there are too many.
-- arguments  letter_id, instance_id, dead_letters_max
-- blobs      letter
-- answers    done
-- A letter that is there already is left as it is: the burial's first answer may have been lost.
local function operation(arguments, letter)
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
