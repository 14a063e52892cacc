-- bind: make the attempt the job's current one, if it has none and has not ended.
-- arguments  job_id, attempt_id, cell, node_id, total_ms (-1: as before)
-- answers    bound attempt_no | not_bound ended | gone
local function operation(arguments)
  local job_id, attempt_id, cell, node_id, total_ms = unpack(arguments)
  local job = read(job_id)
  if not job then return {'gone'} end
  if ended(job) then return {'not_bound', 1} end
  if job[CURRENT] ~= attempt_id then
    if job[CURRENT] ~= '' or past_of(job, attempt_id) then return {'not_bound', 0} end
    table.insert(job[ATTEMPTS],
      {attempt_id, cell, node_id, true, true, '', '', now_ms, 0, 0, 0})
    job[CURRENT] = attempt_id
    job[STATE] = 'DISPATCHED'
    if job[BATCH_TIME] and total_ms >= 0 then job[TOTAL_UNTIL_MS] = now_ms + total_ms end
    write(job_id, job)
  end
  return {'bound', counted(job)}
end
