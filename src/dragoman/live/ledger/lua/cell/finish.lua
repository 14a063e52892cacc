-- finish: store outcome and result and free the slot, in one step.
-- arguments  attempt_id, node_id, epoch, outcome, error, due_ms
-- blobs      the result; empty for none
-- along      attempt_ids to settle
-- answers    finished job_id freed inherited at_ms | late job_id freed inherited
--            | stale reason | cold

-- How much the newest service time counts in a node's mean.
local MEAN_WEIGHT = 0.2

local function operation(arguments, output)
  if not version then return {'cold'} end
  settle(along)
  local attempt_id, node_id, epoch, outcome, problem, due_ms = unpack(arguments)
  local attempt, refused = attempt_of(attempt_id, node_id, epoch)
  if not attempt then return refused end
  local seat, freed = read_seat(attempt[INDEX]), freeing()
  if attempt[STATE] == 'CANCELLING' then
    free(seat, attempt_id, attempt, freed)
    watch(attempt_id)
    return {'late', attempt[JOB_ID], freed.slots, freed.inherited}
  end
  if outcome == 'success' then
    local started_ms = attempt[ACCEPTED_MS] > 0 and attempt[ACCEPTED_MS] or attempt[DISPATCHED_MS]
    local service_ms = math.max(1, now_ms - started_ms)
    seat.mean_ms = seat.mean_ms == 0 and service_ms
      or seat.mean_ms + MEAN_WEIGHT * (service_ms - seat.mean_ms)
  end
  attempt[BY_NODE] = true
  finish(seat, attempt_id, attempt, outcome, problem, output, now_ms + due_ms, freed)
  return {'finished', attempt[JOB_ID], freed.slots, freed.inherited, now_ms}
end
