-- A session's record: a hash with
--   h              the header, packed as HEADER, then for each target that something was delivered
--                  for its last utterance: length, target, '<i4' index
--   s              what never changes, packed by the asker
--   u<index> <target>  'O' job_id for an utterance that is open; 'D' '<I4' number, then what the asker
--                  packed, for one that was delivered and is not acknowledged
-- The number of fields is limited by how many utterances may be open and how many deliveries are
-- kept, so that all of them may be read where the header alone does not tell.
-- A record lapses some time after it was last written or renewed. Its key is given twice that
-- time, so that most writes need not see to it.
local HEADER = '<ddI4I4I4I4I4I4Bc0Bc0Bc0Bc0'
local KEPT = '<dI4I4'
local MOST_TARGETS_ENDED = 32

local function session_in(header, key, now)
  local expires, key_expires, epoch, revision, chunk, index, seq, acked, instance, connection,
    half, before, at = unpk(HEADER, header)
  -- A table that is made whole is made once; one that is filled field by field, several times.
  return {key = key, now = now, expires = expires, key_expires = key_expires, epoch = epoch,
    revision = revision, chunk = chunk, index = index, seq = seq, acked = acked,
    instance = instance, connection = connection, half = half, before = before,
    ended = sub(header, at)}
end

-- The session under a key, unless it has lapsed, and the value of a field if one is named.
local function session_of(key, now, field)
  local header, value
  if field then
    local both = call('HMGET', key, 'h', field)
    header, value = both[1], both[2]
  else
    header = call('HGET', key, 'h')
  end
  if not header then return nil end
  local s = session_in(header, key, now)
  if s.expires <= now then return nil end
  return s, value
end

local function header_of(s)
  return pack(HEADER, s.expires, s.key_expires, s.epoch, s.revision, s.chunk, s.index, s.seq, s.acked,
    #s.instance, s.instance, #s.connection, s.connection, #s.half, s.half, #s.before, s.before)
    .. s.ended
end

-- Whether the asker speaks for the session and has seen no newer record than this one.
local function holds(s, instance, connection, epoch, seen)
  return s and s.epoch == epoch and s.instance == instance and s.connection == connection
    and s.revision >= seen
end

local function not_owner(s)
  if not s then return {'not_owner'} end
  return {'not_owner', s.instance, s.connection, s.epoch}
end

local function field_of(index, target)
  return 'u' .. index .. ' ' .. target
end

local function index_and_target(field)
  local space = find(field, ' ', 1, true)
  return tonumber(sub(field, 2, space - 1)), sub(field, space + 1)
end

-- The last utterance that was delivered for a target, and where in `ended` that stands.
local function last_ended(s, target)
  local ended = s.ended
  local at, size = 1, #ended
  while at <= size do
    local length = byte(ended, at)
    if sub(ended, at + 1, at + length) == target then
      return (unpk('<i4', ended, at + length + 1)), at + length + 1
    end
    at = at + length + 5
  end
  return -1, nil
end

-- Too many targets: the one that was used least lately is forgotten.
local function forget_oldest_target(s)
  local ended = s.ended
  local at, count = 1, 0
  local lowest, lowest_name, from, upto
  while at <= #ended do
    local length = byte(ended, at)
    local index = unpk('<i4', ended, at + length + 1)
    count = count + 1
    local name = sub(ended, at + 1, at + length)
    if not lowest or index < lowest or index == lowest and name < lowest_name then
      lowest, lowest_name, from, upto = index, name, at, at + length + 4
    end
    at = at + length + 5
  end
  if count > MOST_TARGETS_ENDED then s.ended = sub(ended, 1, from - 1) .. sub(ended, upto + 1) end
end

local function set_ended(s, target, index)
  local last, at = last_ended(s, target)
  if not at then
    s.ended = s.ended .. char(#target) .. target .. pack('<i4', index)
    forget_oldest_target(s)
  elseif index > last then
    s.ended = sub(s.ended, 1, at - 1) .. pack('<i4', index) .. sub(s.ended, at + 4)
  end
end

-- Whether nothing before an utterance is open for its target.
local function turn_has_come(s, index, target, last)
  if index == last + 1 then return true end
  local fields = call('HGETALL', s.key)
  for i = 1, #fields, 2 do
    if byte(fields[i]) == 117 and byte(fields[i + 1]) == 79 then
      local other, its_target = index_and_target(fields[i])
      if its_target == target and other < index then return false end
    end
  end
  return true
end

-- Deliveries that were not acknowledged for too long: of the older ones only the number stays, and
-- of the oldest nothing. `kept` is KEPT, then the mark that the asker packed for them.
local function shorten(s, writes, kept)
  local _, keep_delivered, keep_marks, mark_at = unpk(KEPT, kept)
  if s.seq - 1 - s.acked <= keep_delivered then return end
  local fields = call('HGETALL', s.key)
  local drop = {}
  for i = 1, #fields, 2 do
    if byte(fields[i]) == 117 and byte(fields[i + 1]) == 68 then
      local number = unpk('<I4', fields[i + 1], 2)
      if number < s.seq - keep_delivered - keep_marks then
        drop[#drop + 1] = fields[i]
      elseif number < s.seq - keep_delivered and sub(fields[i + 1], 6, 6) == 'J' then
        writes[#writes + 1] = fields[i]
        writes[#writes + 1] = sub(fields[i + 1], 1, 5) .. sub(kept, mark_at)
      end
    end
  end
  if #drop > 0 then call('HDEL', s.key, unpack(drop)) end
end

-- Give the next number to an utterance; the caller writes the session with `writes`.
local function number(s, writes, index, target, sent)
  local seq = s.seq
  s.seq = seq + 1
  set_ended(s, target, index)
  writes[#writes + 1] = field_of(index, target)
  writes[#writes + 1] = 'D' .. pack('<I4', seq) .. sent
  return seq
end

-- The session lives on; whether its key must be given more time for that.
local function prolong(s, session_ms)
  s.expires = s.now + session_ms
  if s.key_expires >= s.expires then return false end
  s.key_expires = s.now + 2 * session_ms
  return true
end

local function write_session(s, session_ms, writes)
  s.revision = s.revision + 1
  local longer = prolong(s, session_ms)
  call('HSET', s.key, 'h', header_of(s), unpack(writes))
  if longer then call('PEXPIRE', s.key, 2 * session_ms) end
end

-- Its owner spoke of the session, and changed nothing.
local function keep_session(s, session_ms)
  local longer = prolong(s, session_ms)
  call('HSET', s.key, 'h', header_of(s))
  if longer then call('PEXPIRE', s.key, 2 * session_ms) end
end

local OWNER = '<dI4I4Bc0Bc0'

-- begin or restore: write a whole record, unless a newer one is there.
-- keys     session
-- args     1 '<d' time, '<d' session_ms; 2 header; 3 what never changes; then field, value, ...
-- answers  the revision, or 0
local function restore(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, session_ms = unpk('<dd', args[1])
  local known, new = session_of(keys[1], now), session_in(args[2], keys[1], now)
  if known then
    local same = known.epoch == new.epoch and known.instance == new.instance
      and known.connection == new.connection
    if same and known.revision == new.revision then return new.revision end
    if same and known.revision > new.revision or not same and known.epoch >= new.epoch then
      return 0
    end
    if same then new.before = known.before end
  end
  call('DEL', keys[1])
  new.key_expires = 0
  prolong(new, session_ms)
  call('HSET', keys[1], 'h', header_of(new), 's', args[3])
  for i = 4, #args, 2 do call('HSET', keys[1], args[i], args[i + 1]) end
  call('PEXPIRE', keys[1], 2 * session_ms)
  return new.revision
end

-- take: become the owner.
-- keys     session
-- args     1 '<d' time, '<d' session_ms, '<d' epoch (-1: from any owner), instance, connection
-- answers  taken, then all fields | changed_hands | none
local function take(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, session_ms, epoch, instance, connection = unpk('<dddBc0Bc0', args[1])
  local s = session_of(keys[1], now)
  if not s then return {'none'} end
  if s.instance ~= instance or s.connection ~= connection then
    if epoch >= 0 and s.epoch ~= epoch then return {'changed_hands'} end
    s.before = pack('<I4Bc0Bc0', s.epoch, #s.instance, s.instance, #s.connection, s.connection)
    s.epoch, s.instance, s.connection = s.epoch + 1, instance, connection
    write_session(s, session_ms, {})
  end
  return {'taken', call('HGETALL', keys[1])}
end

-- deliver: give numbers to ends whose turn has come.
-- keys     session
-- args     1 OWNER: time, epoch, seen, instance, connection; 2 KEPT: session_ms, deliveries and marks
--          that are kept, then the mark; then for each '<BI4Bc0' whether it has a job, index, target; what to keep of it
-- answers  delivered revision number ... (-1: its turn has not come; 0: acknowledged before)
--          | not_owner instance connection epoch
local function deliver(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, epoch, seen, instance, connection = unpk(OWNER, args[1])
  local s = session_of(keys[1], now)
  if not holds(s, instance, connection, epoch, seen) then return not_owner(s) end
  local numbers, changed = {}, false
  for i = 3, #args, 2 do
    local has_job, index, target = unpk('<BI4Bc0', args[i])
    local last = last_ended(s, target)
    local value = call('HGET', keys[1], field_of(index, target))
    local seq
    if value and byte(value) == 68 then
      seq = unpk('<I4', value, 2)
    elseif index >= s.index then
      seq = -1
    elseif not value and (has_job == 1 or index <= last) then
      seq = 0
    elseif not turn_has_come(s, index, target, last) then
      seq = -1
    else
      local writes = {}
      seq = number(s, writes, index, target, args[i + 1])
      changed = true
      call('HSET', keys[1], unpack(writes))
    end
    numbers[#numbers + 1] = seq
  end
  if changed then
    local writes = {}
    shorten(s, writes, args[2])
    write_session(s, (unpk(KEPT, args[2])), writes)
  else
    keep_session(s, (unpk(KEPT, args[2])))
  end
  return {'delivered', s.revision, numbers}
end

-- acknowledge: everything up to a number has arrived, and chunks below another need not be sent again.
-- keys     session
-- args     1 OWNER; 2 '<dI4I4Bc0' session_ms, the number, next_chunk_seq, half sample
-- answers  the revision, or 0
local function acknowledge(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, epoch, seen, instance, connection = unpk(OWNER, args[1])
  local session_ms, upto, chunk, half = unpk('<dI4I4Bc0', args[2])
  local fields = call('HGETALL', keys[1])
  local s
  local drop = {}
  for i = 1, #fields, 2 do
    local field, value = fields[i], fields[i + 1]
    if field == 'h' then
      s = session_in(value, keys[1], now)
    elseif byte(field) == 117 and byte(value) == 68 and unpk('<I4', value, 2) <= upto then
      drop[#drop + 1] = field
    end
  end
  if not holds(s, instance, connection, epoch, seen) or s.expires <= now then return 0 end
  local heard_more = chunk > s.chunk
  if heard_more then s.chunk, s.half = chunk, half end
  if #drop > 0 then
    s.acked = max(s.acked, min(upto, s.seq - 1))
    call('HDEL', keys[1], unpack(drop))
  end
  if #drop > 0 or heard_more then
    write_session(s, session_ms, {})
  else
    keep_session(s, session_ms)
  end
  return s.revision
end

-- renew_sessions: go on owning sessions.
-- keys     session, ...
-- args     1 '<d' time, '<d' session_ms; then OWNER for each
-- answers  the positions of those that are not the asker's, or whose records are older
local function renew_sessions(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, session_ms = unpk('<dd', args[1])
  local refused = {}
  for i = 1, #keys do
    local _, epoch, seen, instance, connection = unpk(OWNER, args[i + 1])
    local s = session_of(keys[i], now)
    if holds(s, instance, connection, epoch, seen) then
      keep_session(s, session_ms)
    else
      refused[#refused + 1] = i - 1
    end
  end
  return refused
end

-- read_session: all fields of the record.
-- keys     session
-- args     1 '<d' time
-- answers  field, value, ...; nothing when there is no such session
local function read_session(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  return session_of(keys[1], now) and call('HGETALL', keys[1]) or {}
end

-- end_session: the session is over.
-- keys     session
-- args     1 OWNER
-- answers  1 | 0 when another connection owns it
local function end_session(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, epoch, _, instance, connection = unpk(OWNER, args[1])
  local s = session_of(keys[1], now)
  if not s then return 1 end
  if not holds(s, instance, connection, epoch, 0) then return 0 end
  call('DEL', keys[1])
  return 1
end

register('restore', restore)
register('take', take)
register('deliver', deliver, 'allow-oom')
register('acknowledge', acknowledge, 'allow-oom')
register('renew_sessions', renew_sessions, 'allow-oom')
register('read_session', read_session, 'no-writes')
register('end_session', end_session, 'allow-oom')
