-- mark_asked: the node was asked to report; its next heartbeat decides about the attempt.
-- arguments  attempt_id, grace_ms
-- answers    done | stale reason | cold
local function operation(arguments)
  if not version then return {'cold'} end
  local attempt_id = arguments[1]
  local attempt = read(HELD, attempt_id)
  if not attempt or attempt[STATE] ~= 'CANCELLING' then return {'stale', 'unknown_job'} end
  attempt[ASKED] = true
  attempt[DUE_AT_MS] = now_ms + arguments[2]
  write_held(attempt_id, attempt)
  watch(attempt_id)
  return {'done'}
end
