-- A session's record: one hash. Numbers and the owner have a field each; an open job is
-- 'o<utterance> <target>' -> job_id ('' for none yet); a delivery that was not acknowledged is
-- 'd<number>' -> {utterance, target, job_id, reason}, packed; ENDED is {target = last utterance that
-- was delivered}, packed; START is what never changes, packed by the asker.
local RECORD = KEYS[1]
local INSTANCE, CONNECTION, EPOCH, START = 'instance', 'connection', 'epoch', 'start'
local NEXT_CHUNK, NEXT_UTTERANCE, NEXT_DELIVERY = 'chunk', 'utterance', 'delivery'
local FIRST_KEPT, ENDED = 'kept', 'ended'

local function number(field)
  return tonumber(redis.call('HGET', RECORD, field) or 0)
end

-- Whether the asker still owns the session; its record then lives on.
local function owned(epoch)
  local current = redis.call('HGET', RECORD, EPOCH)
  if not current or tonumber(current) ~= epoch then return false end
  written[RECORD] = true
  return true
end

local function raise(field, value)
  if value > number(field) then hset(RECORD, field, value) end
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

local function packed_delivery(entry)
  local _, index, target, job_id, reason = unpack(entry)
  return cmsgpack.pack({index, target, job_id, reason})
end
