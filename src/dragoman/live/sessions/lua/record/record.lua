-- A session's record: one hash. Numbers and the owner have a field each; an open job is
-- 'o<utterance> <target>' -> job_id ('' for none yet); a delivery that was not acknowledged is
-- 'd<number>' -> {utterance, target, job_id, reason}, packed; ENDED is {target = last utterance that
-- was delivered}, packed; START is what never changes, packed by the asker; HALF_SAMPLE, where there
-- is one, is what the chunks below NEXT_CHUNK end with and no job has, as hex.
-- Of deliveries that were dropped a list is kept, {number, utterance, target, reason} packed, in the
-- order of their numbers; reason is '' when that they were dropped is the only one.
local RECORD, DROPPED = KEYS[1], KEYS[2]
local INSTANCE, CONNECTION, EPOCH, START = 'instance', 'connection', 'epoch', 'start'
local REVISION = 'revision'
local NEXT_CHUNK, NEXT_UTTERANCE, NEXT_DELIVERY = 'chunk', 'utterance', 'delivery'
local FIRST_KEPT, ENDED, HALF_SAMPLE = 'kept', 'ended', 'half'

local function number(field)
  return tonumber(redis.call('HGET', RECORD, field) or 0)
end

-- Whether the record is the asker's, and not older than what the asker has seen of it; it then
-- lives on.
local function held(owner, seen)
  local current = redis.call('HMGET', RECORD, EPOCH, INSTANCE, CONNECTION, REVISION)
  if not current[1] or tonumber(current[1]) ~= owner[3] then return false end
  if current[2] ~= owner[1] or current[3] ~= owner[2] then return false end
  if tonumber(current[4]) < seen then return false end
  written[RECORD] = true
  return true
end

local function revised()
  return redis.call('HINCRBY', RECORD, REVISION, 1)
end

local function raise(field, value)
  if value <= number(field) then return false end
  hset(RECORD, field, value)
  return true
end

local function open_field(index, target)
  return 'o' .. string.format('%.0f', index) .. ' ' .. target
end

local function delivery_field(seq)
  return 'd' .. string.format('%.0f', seq)
end

local function read_ended()
  local packed = redis.call('HGET', RECORD, ENDED)
  return packed and cmsgpack.unpack(packed) or {}
end

local function open_all(jobs, ended)
  for _, job in ipairs(jobs) do
    local index, target, job_id = unpack(job)
    if index > (ended[target] or -1) then hset(RECORD, open_field(index, target), job_id) end
  end
end

-- Let go of deliveries up to a number. They are kept from FIRST_KEPT on, so that this never takes
-- longer than their bound.
local function let_go(upto)
  local first = number(FIRST_KEPT)
  if upto < first then return end
  for seq = first, math.min(upto, number(NEXT_DELIVERY) - 1) do
    redis.call('HDEL', RECORD, delivery_field(seq))
  end
  hset(RECORD, FIRST_KEPT, upto + 1)
end

local function mark(delivery)
  written[DROPPED] = true
  redis.call('RPUSH', DROPPED, cmsgpack.pack(delivery))
end

-- Let go of deliveries up to a number, and remember so many of them.
local function drop(upto, most_marks)
  for seq = number(FIRST_KEPT), math.min(upto, number(NEXT_DELIVERY) - 1) do
    local packed = redis.call('HGET', RECORD, delivery_field(seq))
    if packed then
      local index, target, _, reason = unpack(cmsgpack.unpack(packed))
      mark({seq, index, target, reason})
    end
  end
  redis.call('LTRIM', DROPPED, -most_marks, -1)
  let_go(upto)
end

-- Forget those that were dropped, up to a number.
local function forget_marks(upto)
  local first = redis.call('LINDEX', DROPPED, 0)
  while first and cmsgpack.unpack(first)[1] <= upto do
    redis.call('LPOP', DROPPED)
    first = redis.call('LINDEX', DROPPED, 0)
  end
end

local function packed_delivery(entry)
  local _, index, target, job_id, reason = unpack(entry)
  return cmsgpack.pack({index, target, job_id, reason})
end
