-- A shard's keys and its jobs: packed arrays in JOBS, what was asked in SPECS, what a node works on
-- in INPUTS, what came of it in OUTPUTS. BINDINGS leads from a request to its job; DUE scores jobs
-- with the time the sweep must look; RECENT sorts them by tenant and age.
local JOBS, SPECS, INPUTS, OUTPUTS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local BINDINGS, DUE, RECENT = KEYS[5], KEYS[6], KEYS[7]

local STATE, CLAIMED_BY, CREATED_AT_MS, CLAIM_UNTIL_MS, TOTAL_UNTIL_MS = 1, 2, 3, 4, 5
local BATCH_TIME, CURRENT, OUTCOME, ERROR, FINISHED_AT_MS = 6, 7, 8, 9, 10
local LEASE_UNTIL_MS, RELEASE_AT_MS, FORGET_AT_MS, PREEMPTIONS = 11, 12, 13, 14
local BINDING, BODY_HASH, RECENT_NAME, ATTEMPTS = 15, 16, 17, 18

-- A past attempt: {attempt_id, cell, node_id, bound, counts, outcome, error, four times}.
local PAST_ID, PAST_BOUND, PAST_COUNTS, PAST_OUTCOME, PAST_ERROR, PAST_TIMES = 1, 4, 5, 6, 7, 8

-- TOTAL_UNTIL_MS of a job that waits until it is cancelled.
local NO_LIMIT = -1

local function read(job_id)
  local packed = redis.call('HGET', JOBS, job_id)
  return packed and cmsgpack.unpack(packed) or nil
end

local function ended(job)
  return job[STATE] == 'FINISHED' or job[STATE] == 'RELEASED'
end

local function due_at_ms(job)
  if job[STATE] == 'FINISHED' then return job[RELEASE_AT_MS] end
  if job[STATE] == 'RELEASED' then return job[FORGET_AT_MS] end
  local total = job[TOTAL_UNTIL_MS]
  if total == NO_LIMIT then return job[CLAIM_UNTIL_MS] end
  return job[CURRENT] ~= '' and total or math.min(job[CLAIM_UNTIL_MS], total)
end

-- Store the job and when the sweep must look at it. The shard lives at least as long as its jobs,
-- plus what the call asks for. DUE, SPECS and RECENT know every job that JOBS knows, so that they
-- come and go with it.
local function write(job_id, job)
  local packed, due = cmsgpack.pack(job), due_at_ms(job)
  hset(JOBS, job_id, packed)
  redis.call('ZADD', DUE, due, job_id)
  local needed_ms = math.max(due, job[FORGET_AT_MS]) - now_ms + terms[2]
  if needed_ms > keep_ms then keep_ms = needed_ms end
  return packed
end

-- The whole record: packed, what was asked, what came of it.
local function record(job_id, packed)
  return packed or redis.call('HGET', JOBS, job_id), redis.call('HGET', SPECS, job_id) or '',
    redis.call('HGET', OUTPUTS, job_id) or ''
end

local function counted(job)
  local count = 0
  for _, past in ipairs(job[ATTEMPTS]) do
    if past[PAST_BOUND] and past[PAST_COUNTS] then count = count + 1 end
  end
  return count
end

local function past_of(job, attempt_id)
  for _, past in ipairs(job[ATTEMPTS]) do
    if past[PAST_ID] == attempt_id then return past end
  end
end

local function close_attempt(job, outcome, problem, times, preempted)
  local past = past_of(job, job[CURRENT])
  past[PAST_COUNTS] = not preempted
  past[PAST_OUTCOME], past[PAST_ERROR] = outcome, problem
  for step = 1, 4 do past[PAST_TIMES + step - 1] = times[step] end
  job[CURRENT] = ''
end

local function unbind(job_id, job)
  if redis.call('HGET', BINDINGS, job[BINDING]) == job_id then
    redis.call('HDEL', BINDINGS, job[BINDING])
  end
end

-- Drop the payload when the time has come.
local function release_if_time(job_id, job)
  if job[STATE] == 'FINISHED' and job[RELEASE_AT_MS] <= now_ms then
    job[STATE] = 'RELEASED'
    redis.call('HDEL', OUTPUTS, job_id)
    unbind(job_id, job)
  end
  write(job_id, job)
end

-- Deliveries were acknowledged: payloads go, at once or when the binding's lease ends.
local function release(job_ids)
  for _, job_id in ipairs(job_ids) do
    local job = read(job_id)
    if job and job[STATE] == 'FINISHED' then
      job[RELEASE_AT_MS] = math.min(job[RELEASE_AT_MS], job[LEASE_UNTIL_MS])
      release_if_time(job_id, job)
    end
  end
end

local function forget(job_id, job)
  redis.call('HDEL', JOBS, job_id)
  redis.call('HDEL', SPECS, job_id)
  redis.call('HDEL', INPUTS, job_id)
  redis.call('HDEL', OUTPUTS, job_id)
  redis.call('ZREM', DUE, job_id)
  redis.call('ZREM', RECENT, job[RECENT_NAME])
end
