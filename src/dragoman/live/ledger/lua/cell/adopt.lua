-- adopt: let an attempt the cell did not know hold a slot, over the limit if need be.
-- arguments  job_id, attempt_id, node_id, epoch, class, wanted, lease_ms, run_ms, number
-- answers    adopted | stale reason | not_seated | cold
local function operation(arguments)
  local job_id, attempt_id, node_id, epoch, class, wanted, lease_ms, run_ms, number =
    unpack(arguments)
  local seat, refused = seat_of(node_id, epoch)
  if not seat then return refused end
  local known = read(HELD, attempt_id)
  if known then
    return known[NODE_ID] == node_id and {'adopted'} or {'stale', 'wrong_node'}
  end
  if wanted and redis.call('HEXISTS', ENDED, attempt_id) == 1 then return {'stale', 'late'} end
  local attempt = {
    job_id, node_id, seat.index, owner_of(seat), seat.epoch, class, lease_ms, run_ms,
    0, wanted and 'RUNNING' or 'CANCELLING', false, false, 0,
    now_ms, 0, now_ms, 0,
    '', '', false, 0, NO_HEIR, 0,
  }
  accept(attempt, number or 0)
  seat_attempt(seat, attempt_id, attempt)
  write_seat(seat)
  watch(attempt_id)
  return {'adopted'}
end
