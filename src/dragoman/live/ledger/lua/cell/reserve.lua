-- reserve: choose a candidate with a free slot and hold it, in one step.
-- arguments  job_id, attempt_id, class, ack_ms, lease_ms, run_ms, strategy, headroom,
--            preemptions, chances
-- blobs      candidates: one byte, the seat's index, for each
-- along      attempt_ids to settle
-- answers    granted index owner at_ms | full | headroom | gone | cold
local function operation(ask, candidates)
  if not version then return {'cold'} end
  settle(along)
  return find(ask[ASK_ATTEMPT_ID]) or grant(ask, candidates)
end
