-- The time and the terms of one call, the same for every operation in it.
-- ARGV[1]  {time shift in ms, least time to live of the keys in ms}, packed
-- ARGV[2]  {{operation, arguments, number of blobs}, ...}, packed
-- ARGV[3..] the blobs of all operations, in order: binary, never unpacked here
local terms = cmsgpack.unpack(ARGV[1])
local server_time = redis.call('TIME')
local now_ms = server_time[1] * 1000 + math.floor(server_time[2] / 1000) + terms[1]
local keep_ms = terms[2]

-- Each operation's file puts one function here: operations.name(arguments, blob, blob).
local operations = {}

-- Keys that this call wrote, so that none is left without a time to live.
local written = {}

local function hset(key, field, value)
  written[key] = true
  redis.call('HSET', key, field, value)
end

local function zadd(key, score, member)
  written[key] = true
  redis.call('ZADD', key, score, member)
end
