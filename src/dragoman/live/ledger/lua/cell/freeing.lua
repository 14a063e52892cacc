-- Giving slots back. What became of them is gathered and answered as {slots, inherited}, the
-- inherited ones as job_id, attempt_id, job_id, attempt_id, ...
local function freeing()
  return {slots = 0, inherited = {}}
end

-- Give the slot back once, to the heir if there is one and the seat still takes.
local function free(seat, attempt_id, attempt, freed)
  redis.call('HDEL', HELD, attempt_id)
  redis.call('ZREM', HOLDS, attempt_id)
  seat.held = seat.held - 1
  local heir = attempt[HEIR]
  if #heir > 0 then
    attempt[HEIR] = NO_HEIR
    redis.call('HDEL', HEIRS, heir[2])
    if takes(seat) then
      hold(seat, heir[2], heir[1], 'live', heir[3], heir[4], heir[5], 0)
      table.insert(freed.inherited, heir[1])
      table.insert(freed.inherited, heir[2])
      return
    end
  end
  if takes(seat) then freed.slots = freed.slots + 1 end
  write_seat(seat)
end

-- An attempt no longer waits for a slot to come free.
local function disinherit(heir_id)
  local victim_id = redis.call('HGET', HEIRS, heir_id)
  if not victim_id then return end
  redis.call('HDEL', HEIRS, heir_id)
  local victim = read(HELD, victim_id)
  victim[HEIR] = NO_HEIR
  write_held(victim_id, victim)
end

-- Outcome and result ('' for none) stored, slot free: one step.
local function finish(seat, attempt_id, attempt, outcome, problem, output, due_at_ms, freed)
  free(seat, attempt_id, attempt, freed)
  attempt[STATE] = 'FINISHED'
  attempt[OUTCOME] = outcome
  attempt[ERROR] = problem
  attempt[FINISHED_MS] = now_ms
  attempt[DUE_AT_MS] = due_at_ms
  hset(ENDED, attempt_id, cmsgpack.pack(attempt))
  if output ~= '' then
    hset(OUTPUTS, attempt_id, output)
  else
    redis.call('HDEL', OUTPUTS, attempt_id)
  end
  set_due(attempt_id, due_at_ms)
end

-- The node no longer has the attempt: a cancelled one is gone, another one is lost.
local function give_up(seat, attempt_id, attempt, freed)
  if attempt[STATE] == 'CANCELLING' then
    free(seat, attempt_id, attempt, freed)
    watch(attempt_id)
  else
    finish(seat, attempt_id, attempt, 'failed', LOST, '', now_ms + ENDED_DUE_MS, freed)
  end
end

local function add(list, attempt_id, attempt)
  table.insert(list, attempt[JOB_ID])
  table.insert(list, attempt_id)
end

-- End everything the seat holds; answers what was lost.
local function lose(seat)
  seat.online = false
  write_seat(seat)
  set_version(version + 1)
  local freed, lost = freeing(), {}
  for _, attempt_id in ipairs(held_by(seat)) do
    local attempt = read(HELD, attempt_id)
    if attempt[STATE] ~= 'CANCELLING' then add(lost, attempt_id, attempt) end
    give_up(seat, attempt_id, attempt, freed)
  end
  return {'lost', lost, freed.slots, freed.inherited}
end

-- What a node lists and the cell does not hold, in the order listed. `running` is
-- job_id, attempt_id, ...; `seen` names the attempts that were matched.
local function unmatched(running, seen)
  local unknown = {}
  for position = 2, #running, 2 do
    if not seen[running[position]] then
      table.insert(unknown, running[position - 1])
      table.insert(unknown, running[position])
    end
  end
  return unknown
end

local function names(running)
  local found = {}
  for position = 2, #running, 2 do found[running[position]] = true end
  return found
end
