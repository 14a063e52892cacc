-- preempt: cancel a batch attempt on a candidate and name the asker its heir.
-- arguments  as for reserve, then max_preemptions, grace_ms
-- blobs      candidates: one byte, the seat's index, for each
-- answers    preempting victim_job_id victim_attempt_id owner at_ms
--            | granted index owner at_ms | gone | no_victim | cold

-- The youngest batch attempt that may still give way: it loses the least work.
local function find_victim(candidates, max_preemptions)
  local board = redis.call('GET', BOARD)
  local victim_id, victim
  for position = 1, #candidates do
    local seat = seat_of_board(board, candidates:byte(position))
    local fit = seat and seat.online and not seat.drained and seat.alive_until_ms > now_ms
      and seat.held > 0 and seat.held <= seat.slots
    for _, attempt_id in ipairs(fit and held_by(seat) or {}) do
      local attempt = read(HELD, attempt_id)
      if attempt[CLASS] == 'batch' and attempt[STATE] ~= 'CANCELLING'
        and attempt[PREEMPTIONS] < max_preemptions
        and (not victim or attempt[DISPATCHED_MS] > victim[DISPATCHED_MS]) then
        victim_id, victim = attempt_id, attempt
      end
    end
  end
  return victim_id, victim
end

local function operation(ask, candidates)
  if not version then return {'cold'} end
  local heir_id = ask[ASK_ATTEMPT_ID]
  local found = find(heir_id)
  if found then return found end
  local victim_id = redis.call('HGET', HEIRS, heir_id)
  local victim = victim_id and read(HELD, victim_id)
  if not victim then
    local granted = grant(ask, candidates)
    if granted[1] == 'granted' then return granted end
    victim_id, victim = find_victim(candidates, ask[ASK_MAX_PREEMPTIONS])
    if not victim then return {'no_victim'} end
    victim[HEIR] = {ask[ASK_JOB_ID], heir_id, ask[ASK_ACK_MS], ask[ASK_LEASE_MS], ask[ASK_RUN_MS]}
    cancel(victim_id, victim, PREEMPTED, ask[ASK_GRACE_MS])
    hset(HEIRS, heir_id, victim_id)
  end
  return {'preempting', victim[JOB_ID], victim_id, victim[OWNER], now_ms}
end
