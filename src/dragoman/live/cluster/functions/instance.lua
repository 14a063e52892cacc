-- An instance's keys. RECORD says where it stands: standing (up, left, down), incarnation and born_ms,
-- when that life joined, until_ms, card; while others deal with it, suspected_at_ms, cleaner, cleaner_until_ms and finished. INBOX is the
-- stream of notes to it, read by the one group GROUP, in which each incarnation is a consumer.
local RECORD, INBOX
local GROUP = 'instance'

local function instance(keys)
  RECORD, INBOX = keys[1], keys[2]
end

local function fact(name)
  return redis.call('HGET', RECORD, name)
end

local function is_alive()
  return fact('standing') == 'up' and tonumber(fact('until_ms')) > now_ms
end

-- Why a process may not speak for the instance, or nil when it may. A record that Redis has
-- forgotten refuses no process.
local function refused(incarnation)
  local present = fact('incarnation')
  if present and present ~= incarnation then return {'superseded'} end
  if present and fact('standing') ~= 'up' then return {'taken_down'} end
end

-- Whether the record is of a life of the instance before the one that joined then: Redis was taken
-- back to an earlier time. Such a life has not superseded a later one.
local function is_of_earlier_life(incarnation, born_ms)
  local present, present_born_ms = fact('incarnation'), tonumber(fact('born_ms'))
  return present and present ~= incarnation and present_born_ms and present_born_ms < born_ms
end

-- Whether a cleaner may clean up after one life of the instance.
local function is_cleaner(token, incarnation)
  return fact('standing') == 'down' and fact('incarnation') == incarnation
    and fact('cleaner') == token
end

local function appear(incarnation, born_ms, ttl_ms, card)
  hset(RECORD, 'standing', 'up')
  hset(RECORD, 'incarnation', incarnation)
  hset(RECORD, 'born_ms', born_ms)
  hset(RECORD, 'until_ms', now_ms + ttl_ms)
  hset(RECORD, 'card', card)
end

-- The inbox with its group, which is there already unless Redis has forgotten it.
local function open_inbox()
  written[INBOX] = true
  redis.pcall('XGROUP', 'CREATE', INBOX, GROUP, '0', 'MKSTREAM')
end

-- join: begin a new life of the instance, whatever became of the one before.
-- arguments  incarnation, ttl_ms
-- blobs      card
-- answers    whether another process was present (1 or 0), when this life joined
local function join(arguments, blobs)
  local card = blobs[1]
  local incarnation, ttl_ms = unpack(arguments)
  local took_over = is_alive() and fact('incarnation') ~= incarnation
  redis.call('DEL', RECORD)
  appear(incarnation, now_ms, ttl_ms, card)
  open_inbox()
  -- Readers of former lives go, except those with notes still to be handed out again.
  for _, reader in ipairs(redis.call('XINFO', 'CONSUMERS', INBOX, GROUP)) do
    local name, pending = reader[2], reader[4]
    if pending == 0 and name ~= incarnation then
      redis.call('XGROUP', 'DELCONSUMER', INBOX, GROUP, name)
    end
  end
  return {took_over and 1 or 0, now_ms}
end

-- renew: stay present; an instance that lapsed is revived if no instance has taken it down.
-- arguments  incarnation, ttl_ms, when it joined
-- blobs      card
-- answers    renewed revived | superseded | taken_down
local function renew(arguments, blobs)
  local card = blobs[1]
  local incarnation, ttl_ms, born_ms = unpack(arguments)
  if is_of_earlier_life(incarnation, born_ms) then redis.call('DEL', RECORD) end
  local no = refused(incarnation)
  if no then return no end
  local revived = not is_alive()
  appear(incarnation, born_ms, ttl_ms, card)
  redis.call('HDEL', RECORD, 'suspected_at_ms')
  open_inbox()
  return {'renewed', revived and 1 or 0}
end

-- leave: say goodbye. An empty inbox goes with the instance, one with notes waits for a peer.
-- arguments  incarnation
-- answers    gone | left | superseded | taken_down
local function leave(arguments)
  local no = refused(arguments[1])
  if no then return no end
  if redis.call('XLEN', INBOX) == 0 then
    redis.call('DEL', RECORD, INBOX)
    return {'gone'}
  end
  hset(RECORD, 'standing', 'left')
  return {'left'}
end

-- view: the instance as others see it.
-- answers    alive card ('' for an instance without a record) inbox_length pending
local function view()
  local pending = redis.pcall('XPENDING', INBOX, GROUP)
  return {
    is_alive() and 1 or 0, fact('card') or '', redis.call('XLEN', INBOX),
    pending.err and 0 or pending[1],
  }
end

-- post: put notes in the inbox, all of them or none, if its instance is present and there is room. Each says
-- which life of the instance it was written to.
-- arguments  inbox_max
-- blobs      note, ...
-- answers    posted | full | gone
local function post(arguments, notes)
  local known = redis.call('HMGET', RECORD, 'standing', 'until_ms', 'incarnation')
  if known[1] ~= 'up' or tonumber(known[2]) <= now_ms then return {'gone'} end
  if redis.call('XLEN', INBOX) + #notes > arguments[1] then return {'full'} end
  written[INBOX] = true
  for _, note in ipairs(notes) do
    redis.call('XADD', INBOX, '*', 'note', note, 'to', known[3])
  end
  return {'posted'}
end

-- take: strike out notes that are done, then hand out those left lying and new ones.
-- arguments  incarnation, count, reclaim_idle_ms, max_deliveries, done, in_hand
-- answers    handed inbox_length {entry_id deliveries note ...} {the same, of those handed out too
--            often} now_ms | superseded | taken_down
local function take(arguments)
  local incarnation, count, reclaim_idle_ms, max_deliveries, done, in_hand = unpack(arguments)
  local no = refused(incarnation)
  if no then return no end
  open_inbox()
  if #done > 0 then
    redis.call('XACK', INBOX, GROUP, unpack(done))
    redis.call('XDEL', INBOX, unpack(done))
  end
  if #in_hand > 0 then
    -- Claiming by id alone counts no delivery, and the time since the last one begins anew.
    table.insert(in_hand, 'JUSTID')
    redis.call('XCLAIM', INBOX, GROUP, incarnation, 0, unpack(in_hand))
  end
  local handed, spent = {}, {}
  local room = count
  local idle = redis.call('XPENDING', INBOX, GROUP, 'IDLE', reclaim_idle_ms, '-', '+', count)
  for _, left in ipairs(idle) do
    local entry_id, deliveries = left[1], left[4] + 1
    local entry = redis.call('XCLAIM', INBOX, GROUP, incarnation, reclaim_idle_ms, entry_id)[1]
    if entry then
      local pile = deliveries > max_deliveries and spent or handed
      table.insert(pile, entry_id)
      table.insert(pile, deliveries)
      table.insert(pile, entry[2][2])
      room = room - 1
    end
  end
  local fresh = room > 0 and redis.call(
    'XREADGROUP', 'GROUP', GROUP, incarnation, 'COUNT', room, 'STREAMS', INBOX, '>')
  for _, entry in ipairs(fresh and fresh[1][2] or {}) do
    table.insert(handed, entry[1])
    table.insert(handed, 1)
    table.insert(handed, entry[2][2])
  end
  return {'handed', redis.call('XLEN', INBOX), handed, spent, now_ms}
end

-- strike_out: notes are done with; nothing else is handed out.
-- arguments  incarnation, entry_id, ...
-- answers    done | superseded | taken_down
local function strike_out(arguments)
  local no = refused(table.remove(arguments, 1))
  if no then return no end
  redis.call('XACK', INBOX, GROUP, unpack(arguments))
  redis.call('XDEL', INBOX, unpack(arguments))
  return {'done'}
end

-- take_down: suspect a lapsed instance, or win the right to clean up after it.
-- arguments  token of the cleaner, suspicion_ms, cleaner_ttl_ms
-- answers    yours incarnation | not_yours | unknown incarnation ('' for no record at all)
local function take_down(arguments)
  local token, suspicion_ms, cleaner_ttl_ms = unpack(arguments)
  local standing = fact('standing')
  if not standing or fact('finished') then return {'unknown', fact('incarnation') or ''} end
  if standing == 'up' then
    if is_alive() then return {'not_yours'} end
    local suspected_at_ms = fact('suspected_at_ms')
    if not suspected_at_ms then hset(RECORD, 'suspected_at_ms', now_ms) end
    if now_ms - (suspected_at_ms or now_ms) < suspicion_ms then return {'not_yours'} end
  elseif standing == 'down' and fact('cleaner') ~= token
    and tonumber(fact('cleaner_until_ms')) > now_ms then
    return {'not_yours'}
  end
  hset(RECORD, 'standing', 'down')
  hset(RECORD, 'cleaner', token)
  hset(RECORD, 'cleaner_until_ms', now_ms + cleaner_ttl_ms)
  return {'yours', fact('incarnation')}
end

-- drain: take notes out of the inbox of an instance that was taken down.
-- arguments  token, incarnation, count, cleaner_ttl_ms
-- answers    drained more note, ... | fenced
local function drain(arguments)
  local token, incarnation, count, cleaner_ttl_ms = unpack(arguments)
  if not is_cleaner(token, incarnation) then return {'fenced'} end
  hset(RECORD, 'cleaner_until_ms', now_ms + cleaner_ttl_ms)
  local answer = {'drained', 0}
  for _, entry in ipairs(redis.call('XRANGE', INBOX, '-', '+', 'COUNT', count)) do
    redis.call('XDEL', INBOX, entry[1])
    table.insert(answer, entry[2][2])
  end
  if redis.call('XLEN', INBOX) > 0 then
    answer[2] = 1
  else
    redis.call('DEL', INBOX)
  end
  return answer
end

-- finish: the clean-up is done. What stays for a while tells the instance, should it wake up.
-- arguments  token, incarnation
-- answers    whether it was the cleaner's to finish (1 or 0)
local function finish(arguments)
  local token, incarnation = unpack(arguments)
  if fact('finished') and fact('incarnation') == incarnation then return {1} end
  if not is_cleaner(token, incarnation) then return {0} end
  redis.call('DEL', INBOX)
  hset(RECORD, 'finished', 1)
  return {1}
end

register('join', on(instance, join))
register('renew', on(instance, renew), 'allow-oom')
register('leave', on(instance, leave), 'allow-oom')
register('view', on(instance, view), 'no-writes')
register('post', on(instance, post))
register('take', on(instance, take), 'allow-oom')
register('strike_out', on(instance, strike_out), 'allow-oom')
register('take_down', on(instance, take_down), 'allow-oom')
register('drain', on(instance, drain), 'allow-oom')
register('finish', on(instance, finish), 'allow-oom')
