-- LETTERS leads from a letter's id to when it was buried, a colon, and the letter; ORDER sorts the ids,
-- which begin with when the note was posted and end with @instance; COUNTS has letters by instance.
local LETTERS, ORDER, COUNTS = KEYS[1], KEYS[2], KEYS[3]

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
