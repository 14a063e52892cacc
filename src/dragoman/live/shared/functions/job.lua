-- A job's record: a string under its request, with a time to live of its own.
--   HEAD   state 'O' open, 'S' 'F' 'C' ended well, badly or by a cancel; flags; preemptions; when it
--          was created; until when its driver has promised to go on; until when its request finds it
--          although it ended; when its time is up (-1: never); when its attempt was named, then when it
--          ended; when its payload goes; when it is forgotten
--   NAMES  cell, body hash, job_id, attempt_id, instance_id
--   spec   '<I4', then what the asker packed
--   body   '<I4', then the input while it is open, then '<I4' end and the result
--   past   '<I4' and what the asker packed, for each earlier attempt
-- OPEN is a hash with all open jobs of the shard and when the sweep must look at each.
local HEAD, HEAD_BYTES = '<c1BBddddddd', 59
local ENDED_HEAD = '<c1Bc17dc8ddd'
local NAMES = '<HBc0Bc0Bc0Bc0'
local CLAIM_AT, LEASE_AT, TOTAL_AT, RELEASE_AT, FORGET_AT = 12, 20, 28, 44, 52
local OPEN_STATE = 79
local INPUT_ELSEWHERE, RESULT_ELSEWHERE, RELEASED = 1, 2, 4
local MOST_HEAD_BYTES = '1100'

local function job_in(value)
  local state, flags, preemptions, created, claim, lease, total, finished, release, forget =
    unpk(HEAD, value)
  local cell, body_hash, job_id, attempt, instance, rest = unpk(NAMES, value, HEAD_BYTES + 1)
  return {state = state, flags = flags, preemptions = preemptions, created = created, claim = claim,
    lease = lease, total = total, finished = finished, release = release, forget = forget,
    cell = cell, body_hash = body_hash, job_id = job_id, attempt = attempt, instance = instance,
    rest = rest}
end

local function has(flags, flag)
  return flags % (2 * flag) >= flag
end

local function head_of(j)
  return pack(HEAD, j.state, j.flags, j.preemptions, j.created, j.claim, j.lease, j.total,
    j.finished, j.release, j.forget)
end

local function names_of(j)
  return pack(NAMES, j.cell, #j.body_hash, j.body_hash, #j.job_id, j.job_id, #j.attempt, j.attempt,
    #j.instance, j.instance)
end

local function due_of(j)
  return pack('<d', j.total >= 0 and min(j.claim, j.total) or j.claim)
end

local function forgotten(j, now)
  return j.forget > 0 and j.forget <= now
end

-- The record, if it is this job's and not forgotten; otherwise nil.
local function known_job(key, job_id, now)
  local value = call('GET', key)
  if not value then return nil end
  local j = job_in(value)
  if j.job_id ~= job_id or forgotten(j, now) then return nil end
  return j, value
end

-- What is known under a key but for spec, body and past, whatever job it is.
local function found_job(key, now)
  local head = call('GETRANGE', key, '0', MOST_HEAD_BYTES)
  if #head == 0 then return nil end
  local j = job_in(head)
  return not forgotten(j, now) and j or nil
end

local OPENING = '<ddBI4I4I4I4Bc0Bc0Bc0'
local NEW_JOB = '<ddddBc1Bc0Bc0Bc0Bc0'
-- Text is a cheaper answer than a table: of those the server looks up seven fields each.
-- now, revision; then for each job '<i4' number or -1
local OPENED = '<dI4'

-- Whether a request finds the job that is there; one of a session is never made anew.
local function finds(s, j, job_id, now)
  return s or j.job_id == job_id or j.state == 'O' or j.state == 'S' and j.lease > now
end

-- Whether the input of a job that is to be opened lies elsewhere and is not there.
local function lacks_input(keys, jobs, i, flags)
  return has(flags, INPUT_ELSEWHERE) and call('EXISTS', keys[2 + 2 * jobs + i]) == 0
end

-- What keeps an utterance's requests from being claimed all at once, nil when nothing does: an input that
-- is not there, or ended jobs whose records must go elsewhere before ('' where there is none). One
-- request is claimed without this look.
local function obstacle(keys, args, jobs, s, now)
  local moved, any = {}, false
  for i = 1, jobs do
    moved[i] = ''
    local _, _, _, _, flags, _, _, job_id, _, older = unpk(NEW_JOB, args[3 * i])
    if lacks_input(keys, jobs, i, flags) then return {'unstored'} end
    local j = found_job(keys[2 + i], now)
    if j and not found_job(keys[2 + jobs + i], now) then
      if not finds(s, j, job_id, now) then
        moved[i] = j.job_id
        any = any or j.job_id ~= older
      end
    end
  end
  return any and {'moved', moved} or nil
end

-- open: claim the requests of one utterance.
-- keys     OPEN, session or a record; of each job: its request's record, where its own would be moved, its input
--          if that lies elsewhere; if older records are named, where they are moved. Of a single job whose input lies
--          in its record the first three are enough, where no record is there yet
-- args     1 OPENING: time, claim_ms, whether there is a session, index, next_chunk_seq, seen, epoch,
--            instance, connection, half sample
--          2 '<B' jobs, then KEPT and the mark as for deliver
--          then for each job: NEW_JOB (total_ms or -1, of a refused one lease_ms, release_ms and forget_ms; flags;
--          state; time to live in ms as text, job_id, target, job_id of the older record);
--          NAMES, spec and body as they are stored; of a refused one what to keep of its delivery
--          then for each job elsewhere: '<Bc0Bc0' target, job_id
-- answers  OPENED | opened now revision {number or -1 | record} ... | moved {job_id or ''} ... | unstored
--          | more (keys are needed) | behind next_index next_chunk_seq | not_owner instance connection epoch
local function open(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, claim_ms, with_session, index, chunk, seen, epoch, instance, connection, half =
    unpk(OPENING, args[1])
  local jobs, kept = byte(args[2]), sub(args[2], 2)
  local s
  if with_session == 1 then
    s = session_of(keys[2], now)
    if not holds(s, instance, connection, epoch, seen) then return not_owner(s) end
    local repeated = index < s.index
    for i = 1, repeated and jobs or 0 do
      repeated = repeated and found_job(keys[2 + i], now) ~= nil
    end
    if index ~= s.index and not repeated then return {'behind', s.index, s.chunk} end
  end

  local answers, writes, opened = {}, {}, {}
  local numbered, all_new = false, true
  local refusal = jobs > 1 and obstacle(keys, args, jobs, s, now)
  if refusal then return refusal end
  for i = 1, jobs do
    local at = 3 * i
    local total_ms, lease_ms, release_ms, forget_ms, flags, state, ttl_ms, job_id, target, older =
      unpk(NEW_JOB, args[at])
    if jobs == 1 and lacks_input(keys, jobs, i, flags) then return {'unstored'} end
    local refused = state ~= 'O'
    local value = pack(HEAD, state, flags, 0, now, now + claim_ms,
      refused and now + lease_ms or 0, total_ms < 0 and -1 or now + total_ms, now,
      refused and now + release_ms or 0, refused and now + forget_ms or 0) .. args[at + 1]
    local key = keys[2 + i]
    local known = call('SET', key, value, 'NX', 'GET', 'PX', ttl_ms)
    if known then
      if not keys[4] then return {'more'} end
      all_new = false
      local j = job_in(known)
      local own = j.job_id ~= job_id and call('GET', keys[2 + jobs + i])
      if own and not forgotten(job_in(own), now) then
        answers[i] = own
      elseif forgotten(j, now) then
        call('SET', key, value, 'PX', ttl_ms)
        known = nil
      elseif finds(s, j, job_id, now) then
        job_id = j.job_id
        answers[i] = known
      elseif j.job_id == older then
        call('RENAME', key, keys[2 + 3 * jobs + i])
        call('SET', key, value, 'PX', ttl_ms)
        known = nil
      else
        return {'moved', {j.job_id}}
      end
    end
    if not known then
      answers[i] = -1
      if not refused then
        opened[#opened + 1] = job_id
        opened[#opened + 1] =
          pack('<d', total_ms < 0 and now + claim_ms or now + min(claim_ms, total_ms))
      end
    end
    if s and index == s.index then
      local last = last_ended(s, target)
      if refused and answers[i] == -1 and turn_has_come(s, index, target, last) then
        answers[i] = number(s, writes, index, target, args[at + 2])
        numbered = true
      elseif index > last then
        writes[#writes + 1] = field_of(index, target)
        writes[#writes + 1] = 'O' .. job_id
      end
    end
  end
  if #opened > 0 then call('HSET', keys[1], unpack(opened)) end
  if s and index == s.index then
    for i = 3 * jobs + 3, #args do
      local target, job_id = unpk('<Bc0Bc0', args[i])
      if index > last_ended(s, target) then
        writes[#writes + 1] = field_of(index, target)
        writes[#writes + 1] = 'O' .. job_id
      end
    end
    s.index = index + 1
    if chunk >= s.chunk then s.chunk, s.half = chunk, half end
    if numbered then shorten(s, writes, kept) end
    write_session(s, (unpk(KEPT, kept)), writes)
  end
  local revision = s and s.revision or 0
  if not all_new then return {'opened', now, revision, answers} end
  for i = 1, jobs do answers[i] = pack('<i4', answers[i]) end
  return pack(OPENED, now, revision) .. table.concat(answers)
end

-- move: name another attempt in the record.
-- keys     OPEN, record
-- args     1 '<dddBH' time, claim_ms, total_ms (-1: as it was), preempted, cell; job_id, attempt that was
--          seen, new attempt, instance; 2 how the attempt ended ('': no slot was held for it)
-- answers  moved now | not_current now record | ended now record | gone
local function move(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, claim_ms, total_ms, preempted, cell, job_id, seen, attempt, instance =
    unpk('<dddBHBc0Bc0Bc0Bc0', args[1])
  local j, value = known_job(keys[2], job_id, now)
  if not j then return {'gone'} end
  if j.state ~= 'O' then return {'ended', now, value} end
  if j.attempt == attempt then return {'moved', j.finished} end
  if j.attempt ~= seen then return {'not_current', now, value} end
  j.attempt, j.cell, j.instance = attempt, cell, instance
  j.claim, j.finished = now + claim_ms, now
  if total_ms >= 0 then j.total = now + total_ms end
  j.preemptions = min(255, j.preemptions + preempted)
  local ended = args[2]
  call('SET', keys[2], head_of(j) .. names_of(j) .. sub(value, j.rest)
    .. (ended == '' and '' or pack('<I4', #ended) .. ended), 'KEEPTTL')
  call('HSET', keys[1], job_id, due_of(j))
  return {'moved', now}
end

local CLOSING = '<ddddc1BBBI4I4I4Bc0Bc0Bc0Bc0Bc0Bc0'
-- now, number (-1: none), revision
local CLOSED = '<ddd'

-- close: give the job its one end, and deliver it if its turn has come.
-- keys     OPEN, record, input, session if it lies here, where the result is if it is long
-- args     1 CLOSING: time, lease_ms, release_ms, forget_ms, state, flags, whether any attempt will do, whether
--            there is a session, epoch, seen, index; time to live in ms as text, job_id, attempt, instance, connection,
--            target
--          2 the body; 3 what to keep of the delivery, '' when there is none; 4 KEPT and the mark
-- answers  CLOSED | not_current now record | ended now record | gone
--          | unstored
local function close(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, lease_ms, release_ms, forget_ms, state, flags, any, with_session, epoch, seen, index,
    ttl_ms, job_id, attempt, instance, connection, target = unpk(CLOSING, args[1])
  -- Every job comes by here: the record is changed as it lies there, without a table.
  local value = call('GET', keys[2])
  if not value then return {'gone'} end
  local _, _, its_id, its_attempt, _, spec_at = unpk(NAMES, value, HEAD_BYTES + 1)
  local forget = unpk('<d', value, FORGET_AT)
  if its_id ~= job_id or forget > 0 and forget <= now then return {'gone'} end
  if byte(value) ~= OPEN_STATE then return {'ended', now, value} end
  if any == 0 and its_attempt ~= attempt then return {'not_current', now, value} end
  if has(flags, RESULT_ELSEWHERE) and call('EXISTS', keys[#keys]) == 0 then
    return {'unstored'}
  end
  if has(byte(value, 2), INPUT_ELSEWHERE) then call('UNLINK', keys[3]) end
  local body_at = spec_at + 4 + unpk('<I4', value, spec_at)
  local past_at = body_at + 4 + unpk('<I4', value, body_at)
  call('SET', keys[2], pack(ENDED_HEAD, state, flags, sub(value, 3, LEASE_AT - 1), now + lease_ms,
      sub(value, TOTAL_AT, TOTAL_AT + 7), now, now + release_ms, now + forget_ms)
    .. sub(value, HEAD_BYTES + 1, body_at - 1)
    .. pack('<I4', #args[2]) .. args[2] .. sub(value, past_at), 'PX', ttl_ms)
  call('HDEL', keys[1], job_id)

  if with_session == 0 then return pack(CLOSED, now, -1, 0) end
  local s, sent = session_of(keys[4], now, field_of(index, target))
  if not holds(s, instance, connection, epoch, seen) then return pack(CLOSED, now, -1, 0) end
  local seq = -1
  if sent and byte(sent) == 68 then
    seq = unpk('<I4', sent, 2)
  elseif sent and args[3] ~= '' and index < s.index
    and turn_has_come(s, index, target, last_ended(s, target)) then
    local writes = {}
    seq = number(s, writes, index, target, args[3])
    shorten(s, writes, args[4])
    write_session(s, (unpk(KEPT, args[4])), writes)
  else
    keep_session(s, (unpk(KEPT, args[4])))
  end
  return pack(CLOSED, now, seq, s.revision)
end

-- renew: go on driving jobs.
-- keys     OPEN, then record and input of each
-- args     1 '<ddd' time, claim_ms, least time to live in ms; instance; then job_ids
-- answers  the positions of those that are no longer the asker's
local function renew(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, claim_ms, ttl_ms, instance = unpk('<dddBc0', args[1])
  local refused, due = {}, {}
  for i = 2, #args do
    local key, job_id = keys[2 * i - 2], args[i]
    local head = call('GETRANGE', key, '0', MOST_HEAD_BYTES)
    local j = #head > 0 and job_in(head)
    if not j or j.state ~= 'O' or j.job_id ~= job_id or j.instance ~= instance then
      refused[#refused + 1] = i - 2
    else
      j.claim = max(j.claim, now + claim_ms)
      call('SETRANGE', key, CLAIM_AT - 1, pack('<d', j.claim))
      call('PEXPIRE', key, ttl_ms, 'GT')
      if has(j.flags, INPUT_ELSEWHERE) then call('PEXPIRE', keys[2 * i - 1], ttl_ms, 'GT') end
      due[#due + 1] = job_id
      due[#due + 1] = due_of(j)
    end
  end
  if #due > 0 then call('HSET', keys[1], unpack(due)) end
  return refused
end

-- take_over: drive a job whose claim ran out.
-- keys     OPEN, record
-- args     1 '<dd' time, claim_ms; job_id, attempt that was seen, instance
-- answers  taken now record | driven now record | not_current now record | ended now record | gone
local function take_over(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, claim_ms, job_id, seen, instance = unpk('<ddBc0Bc0Bc0', args[1])
  local j, value = known_job(keys[2], job_id, now)
  if not j then return {'gone'} end
  if j.state ~= 'O' then return {'ended', now, value} end
  if j.attempt ~= seen then return {'not_current', now, value} end
  if j.claim > now then
    if j.instance ~= instance then return {'driven', now, value} end
  else
    j.instance, j.claim = instance, now + claim_ms
    value = head_of(j) .. names_of(j) .. sub(value, j.rest)
    call('SET', keys[2], value, 'KEEPTTL')
    call('HSET', keys[1], job_id, due_of(j))
  end
  return {'taken', now, value}
end

-- Take the input and the result out of an ended job's record; how it ended stays.
local function drop_body(key)
  local value = call('GET', key)
  local _, _, _, _, _, spec_at = unpk(NAMES, value, HEAD_BYTES + 1)
  local body_at = spec_at + 4 + unpk('<I4', value, spec_at)
  local past_at = body_at + 4 + unpk('<I4', value, body_at)
  local kept = 4 + unpk('<I4', value, body_at + 4)
  call('SET', key, sub(value, 1, body_at - 1) .. pack('<I4', kept)
    .. sub(value, body_at + 4, body_at + 3 + kept) .. sub(value, past_at), 'KEEPTTL')
end

-- release: deliveries were acknowledged; payloads go when the binding's lease ends.
-- keys     record of each
-- args     1 '<d' time; then job_ids
-- answers  for each whose result lies elsewhere: its position, attempt_id, ms until it goes
local function release(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local elsewhere = {}
  for i = 2, #args do
    local key = keys[i - 1]
    local head = call('GETRANGE', key, '0', MOST_HEAD_BYTES)
    local flags = #head > 0 and byte(head, 2)
    if flags and byte(head) ~= OPEN_STATE and not has(flags, RELEASED) then
      local lease, _, _, release, forget = unpk('<ddddd', head, LEASE_AT)
      local _, _, job_id, attempt = unpk(NAMES, head, HEAD_BYTES + 1)
      if job_id == args[i] and (forget <= 0 or forget > now) then
        release = min(release, max(lease, now))
        call('SETRANGE', key, 1,
          char(flags + RELEASED) .. sub(head, 3, RELEASE_AT - 1) .. pack('<d', release))
        if release <= now then drop_body(key) end
        if has(flags, RESULT_ELSEWHERE) then
          elsewhere[#elsewhere + 1] = {i - 2, attempt, max(1, release - now)}
        end
      end
    end
  end
  return elsewhere
end

-- read: a job by its id.
-- keys     record, older record
-- args     1 '<d' time; job_id
-- answers  now record | nothing
local function read(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  for i = 1, #keys do
    local j, value = known_job(keys[i], args[2], now)
    if j then return {now, value} end
  end
  return {}
end

-- due: a job that the sweep found among the open ones; one that is not open is taken out.
-- keys     OPEN, record
-- args     1 '<d' time; job_id
-- answers  now record | nothing
local function due(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local j, value = known_job(keys[2], args[2], now)
  if j and j.state == 'O' then return {now, value} end
  call('HDEL', keys[1], args[2])
  return {}
end

-- list_open: have the sweep look at a job that is open.
-- keys     OPEN, record
-- args     1 '<d' time; job_id
-- answers  1 | 0 when it is not open, or listed
local function list_open(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local j = known_job(keys[2], args[2], now)
  if not j or j.state ~= 'O' then return 0 end
  return call('HSETNX', keys[1], args[2], due_of(j))
end

register('list_open', list_open, 'allow-oom')
register('open', open)
register('move', move)
register('close', close, 'allow-oom')
register('renew', renew, 'allow-oom')
register('take_over', take_over)
register('release', release, 'allow-oom')
register('read', read, 'no-writes')
register('due', due, 'allow-oom')
