-- What an operation may use: the time, its terms, and writes that are never left to stay for ever.
-- ARGV[1]  {time shift in ms, least time to live of the keys in ms, the operation's arguments,
--           what goes along}, packed
-- ARGV[2..] the operation's blobs: binary, never unpacked here
local terms = cmsgpack.unpack(ARGV[1])
local server_time = redis.call('TIME')
local now_ms = server_time[1] * 1000 + math.floor(server_time[2] / 1000) + terms[1]
local keep_ms = terms[2]

-- Names that came along with the operation, for those that look for them.
local along = terms[4]

-- Keys that this call may have made, so that none is left without a time to live. A tag's first key
-- is there as long as any other, and none of them is gone before it: whatever should keep the tag
-- alive names the first key too.
local written = {}

local function hset(key, field, value)
  written[key] = true
  redis.call('HSET', key, field, value)
end

local function zadd(key, score, member)
  written[key] = true
  redis.call('ZADD', key, score, member)
end
