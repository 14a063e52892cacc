-- claim: bind a request to one job; the same request finds the same job.
-- arguments  job_id, instance_id, claim_ms, total_ms (-1: none), binding, body_hash, tenant
-- blobs      what is asked, the input
-- along      job_ids to release
-- answers    claimed at_ms | existing job_id packed spec result | conflict job_id
local function operation(arguments, spec, input)
  release(along)
  local job_id, instance_id, claim_ms, total_ms, binding, body_hash, tenant = unpack(arguments)
  local known_id = redis.call('HGET', BINDINGS, binding)
  local known = known_id and read(known_id)
  if known and (not ended(known) or known[LEASE_UNTIL_MS] > now_ms) then
    if known[BODY_HASH] ~= body_hash then return {'conflict', known_id} end
    return {'existing', known_id, record(known_id)}
  end
  local recent_name = tenant .. '\0' .. string.format('%015.0f', now_ms) .. '\0' .. job_id
  redis.call('HSET', SPECS, job_id, spec)
  redis.call('ZADD', RECENT, 0, recent_name)
  hset(INPUTS, job_id, input)
  hset(BINDINGS, binding, job_id)
  write(job_id, {
    'CREATED', instance_id, now_ms, now_ms + claim_ms,
    total_ms == NO_LIMIT and NO_LIMIT or now_ms + total_ms,
    total_ms == NO_LIMIT, '', '', '', 0,
    0, 0, 0, 0,
    binding, body_hash, recent_name, {},
  })
  return {'claimed', now_ms}
end
