-- Asking a cell for a slot; `reserve`, `preempt` and `peek` share how an ask is read.
local ASK_JOB_ID, ASK_ATTEMPT_ID, ASK_CLASS, ASK_ACK_MS, ASK_LEASE_MS, ASK_RUN_MS = 1, 2, 3, 4, 5, 6
local ASK_STRATEGY, ASK_HEADROOM, ASK_PREEMPTIONS, ASK_CHANCES = 7, 8, 9, 10
local ASK_MAX_PREEMPTIONS, ASK_GRACE_MS = 11, 12

-- What an earlier ask with the same attempt_id got here, or nil.
local function find(attempt_id)
  local attempt = read(HELD, attempt_id)
  if attempt then
    if attempt[STATE] == 'CANCELLING' then return {'gone'} end
    return {'granted', attempt[INDEX], attempt[OWNER], attempt[DISPATCHED_MS]}
  end
  if redis.call('HEXISTS', ENDED, attempt_id) == 1 then return {'gone'} end
end

-- Why a class may take no slot of the candidates: 'full' or 'headroom'; nil when it may.
local function refusal(ask, candidates)
  if ask[ASK_CLASS] ~= 'batch' then return nil end
  local leaves, free_slots = leaves_headroom(candidates, ask[ASK_HEADROOM])
  if leaves then return nil end
  return free_slots > 0 and 'headroom' or 'full'
end

-- A slot for the ask, or why there is none.
local function grant(ask, candidates)
  local refused = refusal(ask, candidates)
  if refused then return {refused} end
  local seat = choose(candidates, ask[ASK_STRATEGY], ask[ASK_CHANCES])
  if not seat then return {'full'} end
  local owner = hold(seat, ask[ASK_ATTEMPT_ID], ask[ASK_JOB_ID], ask[ASK_CLASS], ask[ASK_ACK_MS],
    ask[ASK_LEASE_MS], ask[ASK_RUN_MS], ask[ASK_PREEMPTIONS])
  -- It may have been waiting for another slot of the cell: no attempt holds two.
  disinherit(ask[ASK_ATTEMPT_ID])
  return {'granted', seat.index, owner, now_ms}
end
