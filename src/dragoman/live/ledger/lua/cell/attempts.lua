-- Attempts: packed arrays in HELD (they hold a slot) and ENDED (their job has not taken them).
-- HOLDS scores each held attempt with the index of its seat; DUE with the time the sweep must look.
local JOB_ID, NODE_ID, INDEX, OWNER, EPOCH, CLASS, LEASE_MS, RUN_MS = 1, 2, 3, 4, 5, 6, 7, 8
local DUE_AT_MS, STATE, ACKED, ASKED, RUN_UNTIL_MS = 9, 10, 11, 12, 13
local DISPATCHED_MS, ACCEPTED_MS, RUNNING_MS, FINISHED_MS = 14, 15, 16, 17
local OUTCOME, ERROR, BY_NODE, PREEMPTIONS, HEIR, ACK_NUMBER = 18, 19, 20, 21, 22, 23

-- An heir, kept with the attempt it inherits from: {job_id, attempt_id, ack_ms, lease_ms, run_ms}.
local NO_HEIR = {}

local LOST = '{"code":"NODE_UNAVAILABLE","message":"The node that carried the attempt is gone."}'
local PREEMPTED = '{"code":"PREEMPTED","message":"The slot was needed for live work."}'

-- How long an attempt that ended without its node's word waits for the instance that ended it.
local ENDED_DUE_MS = 1000

local ORDER = {DISPATCHED = 0, ACCEPTED = 1, RUNNING = 2, CANCELLING = 3, FINISHED = 4}

local function read(key, attempt_id)
  local packed = redis.call('HGET', key, attempt_id)
  return packed and cmsgpack.unpack(packed) or nil
end

-- The packed record of an attempt that ended or holds a slot, and its result.
local function stored(attempt_id)
  local ended = redis.call('HGET', ENDED, attempt_id)
  if ended then return ended, redis.call('HGET', OUTPUTS, attempt_id) or '' end
  return redis.call('HGET', HELD, attempt_id), ''
end

local function write_held(attempt_id, attempt)
  redis.call('HSET', HELD, attempt_id, cmsgpack.pack(attempt))
end

local function set_due(attempt_id, due_at_ms)
  redis.call('ZADD', DUE, due_at_ms, attempt_id)
end

local function held_by(seat)
  return redis.call('ZRANGEBYSCORE', HOLDS, seat.index, seat.index)
end

-- Look at the attempt when the earlier of its two records is due: one may be held again, for
-- being cancelled, while its end still waits to be taken.
local function watch(attempt_id)
  local ended, held = read(ENDED, attempt_id), read(HELD, attempt_id)
  if not ended and not held then
    redis.call('ZREM', DUE, attempt_id)
    return
  end
  local due_at_ms = math.min(
    ended and ended[DUE_AT_MS] or math.huge, held and held[DUE_AT_MS] or math.huge)
  set_due(attempt_id, due_at_ms)
end

-- Forget finished attempts that their jobs have taken.
local function settle(attempt_ids)
  for _, attempt_id in ipairs(attempt_ids) do
    if redis.call('HDEL', ENDED, attempt_id) == 1 then
      redis.call('HDEL', OUTPUTS, attempt_id)
      local held = read(HELD, attempt_id)
      if held then
        set_due(attempt_id, held[DUE_AT_MS])
      else
        redis.call('ZREM', DUE, attempt_id)
      end
    end
  end
end

-- The attempt, if the sender may speak for it; otherwise nil and the answer.
local function attempt_of(attempt_id, node_id, epoch)
  local attempt = read(HELD, attempt_id) or read(ENDED, attempt_id)
  if not attempt then return nil, {'stale', 'unknown_job'} end
  if attempt[NODE_ID] ~= node_id then return nil, {'stale', 'wrong_node'} end
  if attempt[EPOCH] ~= epoch then return nil, {'stale', 'old_attempt'} end
  if attempt[STATE] == 'FINISHED' then
    return nil, {'stale', attempt[BY_NODE] and 'duplicate' or 'late'}
  end
  return attempt
end

local function renew(attempt)
  attempt[DUE_AT_MS] = math.min(now_ms + attempt[LEASE_MS], attempt[RUN_UNTIL_MS])
end

-- The node's current connection speaks of it, with the word of this number.
local function acknowledge(attempt, number)
  if attempt[ACKED] then return end
  attempt[ACKED], attempt[ACK_NUMBER] = true, number
end

-- Whether a heartbeat of this number must list it, if the node has it.
local function acked_before(attempt, number)
  return attempt[ACKED] and (attempt[ACK_NUMBER] or 0) <= number
end

-- The node has it: from now on heartbeats keep the lease and the run time counts.
local function accept(attempt, number)
  acknowledge(attempt, number)
  if attempt[ACCEPTED_MS] == 0 then
    attempt[ACCEPTED_MS] = now_ms
    attempt[RUN_UNTIL_MS] = now_ms + attempt[RUN_MS]
  end
  renew(attempt)
end

-- The node says that it runs the attempt: that is as good as an acknowledgement.
local function listed(attempt_id, attempt, number)
  if attempt[STATE] == 'CANCELLING' then
    acknowledge(attempt, number)
  else
    if attempt[STATE] == 'DISPATCHED' then attempt[STATE] = 'ACCEPTED' end
    accept(attempt, number)
    set_due(attempt_id, attempt[DUE_AT_MS])
  end
  write_held(attempt_id, attempt)
end

-- Put an attempt on a seat. The caller writes the seat. While HELD knows an attempt, HOLDS and DUE
-- know it too: the three are new together, or none of them is.
local function seat_attempt(seat, attempt_id, attempt)
  write_held(attempt_id, attempt)
  redis.call('ZADD', HOLDS, seat.index, attempt_id)
  set_due(attempt_id, attempt[DUE_AT_MS])
  if redis.call('HLEN', HELD) == 1 then
    written[HELD], written[HOLDS], written[DUE] = true, true, true
  end
  seat.held = seat.held + 1
end

-- A fresh attempt takes a slot of the seat; answers its owner.
local function hold(seat, attempt_id, job_id, class, ack_ms, lease_ms, run_ms, preemptions)
  local owner = owner_of(seat)
  -- Hardly any name needs to be unescaped; for the others there is a slower way.
  local node_id = owner:match('^%["([^"\\]*)"') or cjson.decode(owner)[1]
  seat_attempt(seat, attempt_id, {
    job_id, node_id, seat.index, owner, seat.epoch, class, lease_ms, run_ms,
    now_ms + ack_ms, 'DISPATCHED', false, false, 0,
    now_ms, 0, 0, 0,
    '', '', false, preemptions, NO_HEIR, 0,
  })
  write_seat(seat)
  return owner
end

local function cancel(attempt_id, attempt, problem, grace_ms)
  attempt[STATE] = 'CANCELLING'
  attempt[ERROR] = problem
  attempt[DUE_AT_MS] = now_ms + grace_ms
  write_held(attempt_id, attempt)
  set_due(attempt_id, attempt[DUE_AT_MS])
end
