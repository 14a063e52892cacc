-- take_over: drive a CREATED job whose claim ran out; one of many askers gets it.
-- arguments  job_id, instance_id, claim_ms
-- answers    taken packed spec input | held instance_id ('' when it has ended or runs) | gone
local function operation(arguments)
  local job_id, instance_id, claim_ms = unpack(arguments)
  local job = read(job_id)
  if not job then return {'gone'} end
  local input = redis.call('HGET', INPUTS, job_id)
  if ended(job) or not input or job[CURRENT] ~= '' then return {'held', ''} end
  if job[CLAIM_UNTIL_MS] > now_ms then return {'held', job[CLAIMED_BY]} end
  job[CLAIMED_BY] = instance_id
  job[CLAIM_UNTIL_MS] = now_ms + claim_ms
  return {'taken', write(job_id, job), redis.call('HGET', SPECS, job_id) or '', input}
end
