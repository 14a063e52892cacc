-- What every function begins and ends with: the time, and writes that are never left to stay for ever.
-- The first argument of every function is {time shift in ms, least time to live of the keys in ms, its
-- arguments}, packed; what is binary follows, never unpacked here. Where several are run together, the
-- third parameter is the time that they go by. Each function is run from its beginning to its end, so
-- that what is named here is of one run.
local now_ms, keep_ms, written

local function hset(key, field, value)
  written[key] = true
  redis.call('HSET', key, field, value)
end

local function zadd(key, score, member)
  written[key] = true
  redis.call('ZADD', key, score, member)
end

-- Keys that this run may have made, so that none is left without a time to live. A tag's first key is
-- there as long as any other, and none of them is gone before it: whatever should keep the tag alive
-- names the first key too.
local function keep(keys)
  for key in pairs(written) do
    local left_ms = redis.call('PTTL', key)
    if left_ms ~= -2 and left_ms < keep_ms then
      -- Half as long again, so that a busy key is not renewed by every call.
      local kept_ms = math.floor(keep_ms * 1.5)
      if key == keys[1] then
        for _, each in ipairs(keys) do redis.call('PEXPIRE', each, kept_ms) end
      else
        redis.call('PEXPIRE', key, math.max(kept_ms, redis.call('PTTL', keys[1])))
      end
    end
  end
end

-- A function of an operation on one kind of tag: `name` gives the tag's keys their names, and the
-- operation gets its arguments and what is binary.
local function on(name, operation)
  return function(keys, args, shared_now)
    local terms = cmsgpack.unpack(args[1])
    if not shared_now then
      local time = redis.call('TIME')
      shared_now = time[1] * 1000 + math.floor(time[2] / 1000)
    end
    now_ms, keep_ms, written = shared_now + terms[1], terms[2], {}
    name(keys)
    local answer = operation(terms[3], {unpack(args, 2)})
    keep(keys)
    return answer
  end
end
