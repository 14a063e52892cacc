-- A cell's attempts: a hash from attempt_id to a packed record. DISPATCHED to CANCELLING hold a slot
-- of their seat. FINISHED is one whose end is kept. A TOMBSTONE says until when no late reserve may
-- hold a slot, an HEIR that a cancelled attempt's slot will pass to it. An attempt that is over and that
-- its node still runs is held a second time, under its id with '~' behind.
-- The field 'w' has the instances that wait for a slot.
--   ENTRY  index, state, class (1: batch), flags, preemptions, epoch, lease_ms (of a cancelled one how long
--          its tombstone stays), run_ms, the number of the word that acknowledged it; when it is due, was
--          dispatched, accepted, run, finished (or cancelled), may run until (an heir: its ack_ms); node
--   then   job_id, instance_id, and the heir of a cancelled attempt, the victim of an heir, or of a finished one '<d',
--          until when a tombstone stands for the time that it was held again; then what the
--          asker packed: the error of a cancelled one; '<H', the node's owner, and the end of a finished one
local ENTRY = '<BBBBBI4I4I4I4ddddddc8Bc0Bc0Bc0'
local FRESH = '<BBBBBI4I4I4I4ddddddc8'
local PLAIN = '<BBBBBI4I4I4I4ddddddc8Bc0'
local DISPATCHED, ACCEPTED, RUNNING, CANCELLING, FINISHED, TOMBSTONE, HEIR = 0, 1, 2, 3, 4, 5, 6
local ACKED, ASKED, BY_NODE, RESULT_ELSEWHERE = 1, 2, 4, 8
local NO_NODE = '\0\0\0\0\0\0\0\0'
local LOST_DUE_MS = 1000
local MEAN_WEIGHT = 0.2

local function attempt_in(entry, id)
  local index, state, class, flags, preemptions, epoch, lease, run, number, due, dispatched, accepted,
    running, finished, run_until, node, job, instance, peer, at = unpk(ENTRY, entry)
  -- A table that is made whole is made once; one that is filled field by field, several times.
  return {id = id, index = index, state = state, class = class, flags = flags,
    preemptions = preemptions, epoch = epoch, lease = lease, run = run, number = number, due = due,
    dispatched = dispatched, accepted = accepted, running = running, finished = finished,
    run_until = run_until, node = node, job = job, instance = instance, peer = peer,
    extra = sub(entry, at)}
end

local function entry_of(x)
  return pack(ENTRY, x.index, x.state, x.class, x.flags, x.preemptions, x.epoch, x.lease, x.run,
    x.number, x.due, x.dispatched, x.accepted, x.running, x.finished, x.run_until, x.node,
    #x.job, x.job, #x.instance, x.instance, #x.peer, x.peer) .. x.extra
end

local function write(keys, x)
  call('HSET', keys[ATTEMPTS], x.id, entry_of(x))
end

-- What is known of an attempt, but for tombstones that have stood long enough.
local function known(entry, id, now)
  if not entry then return nil end
  local x = attempt_in(entry, id)
  if x.state == TOMBSTONE and x.due <= now then return nil end
  return x
end

local function find_attempt(keys, id, now)
  return known(call('HGET', keys[ATTEMPTS], id), id, now)
end

-- The attempt that holds a slot, given what is known under its id.
local function held_of(keys, x, id, now)
  if x and x.state <= CANCELLING then return x end
  if not x or x.state <= TOMBSTONE then return find_attempt(keys, id .. '~', now) end
end

-- What is over is forgotten; where the attempt is held again, that is all there is of it now.
local function forget_over(keys, id)
  local again = call('HGET', keys[ATTEMPTS], id .. '~')
  if again then
    call('HSET', keys[ATTEMPTS], id, again)
    call('HDEL', keys[ATTEMPTS], id .. '~')
  else
    call('HDEL', keys[ATTEMPTS], id)
  end
end

local function has_flag(x, flag)
  return x.flags % (2 * flag) >= flag
end

local function set_flag(x, flag)
  if not has_flag(x, flag) then x.flags = x.flags + flag end
end

local function unset_flag(x, flag)
  if has_flag(x, flag) then x.flags = x.flags - flag end
end

-- The name that jobs know it by.
local function name_of(x)
  return byte(x.id, -1) == 126 and sub(x.id, 1, -2) or x.id
end

-- A cell without a board knows no node, and says so unless it knows the attempt.
local function unknown(keys)
  if call('EXISTS', keys[BOARD]) == 1 then return {'stale', 'unknown_job'} end
  return {'cold'}
end

-- --- waiting ----------------------------------------------------------------------------------------

-- since, until when that counts, class; instance, pair, candidates
local WAITER = '<ddBBc0Bc0Hc0'
local WAITING_MS = 30000

local function waiters_in(packed, now)
  local found, at = {}, 1
  while at <= #packed do
    local w = {}
    w.since, w.till, w.class, w.instance, w.pair, w.candidates, at = unpk(WAITER, packed, at)
    if w.till > now then found[#found + 1] = w end
  end
  return found
end

local function write_waiters(keys, waiters)
  local parts = {}
  for i, w in ipairs(waiters) do
    parts[i] = pack(WAITER, w.since, w.till, w.class, #w.instance, w.instance, #w.pair, w.pair,
      #w.candidates, w.candidates)
  end
  if #parts == 0 then
    call('HDEL', keys[ATTEMPTS], 'w')
  else
    call('HSET', keys[ATTEMPTS], 'w', table.concat(parts))
  end
end

-- The instance found no slot; asking again keeps its place.
local function note_waiting(keys, now, class, candidates, waiting)
  local instance, pair = unpk('<Bc0Bc0', waiting)
  local waiters = waiters_in(call('HGET', keys[ATTEMPTS], 'w') or '', now)
  local mine
  for _, w in ipairs(waiters) do
    if w.instance == instance and w.pair == pair and w.class == class then mine = w end
  end
  if not mine then
    mine = {since = now, class = class, instance = instance, pair = pair}
    waiters[#waiters + 1] = mine
  end
  mine.candidates, mine.till = candidates, now + WAITING_MS
  write_waiters(keys, waiters)
end

-- The instances that get to try for so many slots of a seat: for live work before batch work, the one
-- that waits longest; they wait no more, and the seat's record says that they are on their way: it was written
-- before. `packed` are the waiters, if they were read already.
local function wake(keys, now, index, slots, packed)
  local woken = {}
  if slots <= 0 then return woken end
  packed = packed or call('HGET', keys[ATTEMPTS], 'w')
  if not packed then return woken end
  local waiters, seat = waiters_in(packed, now), char(index)
  for _ = 1, slots do
    local first
    for i, w in ipairs(waiters) do
      local before = first and waiters[first]
      if find(w.candidates, seat, 1, true) and (not before or w.class < before.class
        or w.class == before.class and w.since < before.since) then
        first = i
      end
    end
    if not first then break end
    woken[#woken + 1] = table.remove(waiters, first).instance
  end
  write_waiters(keys, waiters)
  if #woken > 0 then call('SETRANGE', keys[BOARD], PROMISE[index], char(promise_of(now))) end
  return woken
end

-- --- giving slots back --------------------------------------------------------------------------------

-- The attempt no longer waits for a slot to inherit.
local function stop_waiting(keys, x, now)
  if not x or x.state ~= HEIR then return end
  local victim = find_attempt(keys, x.peer, now)
  if victim and victim.peer == x.id then
    victim.peer = ''
    write(keys, victim)
  end
end

-- The seat that the attempt holds a slot of; one that grants nothing when the cell lost it.
local function seat_held_by(keys, x)
  local seat = read_seat(keys, x.index)
  if seat and seat.node == x.node then return seat end
  return {gone = true, index = x.index, slots = 0, held = 1, mean = 0, epoch = x.epoch, alive = 0,
    node = x.node, online = false, drained = false}
end

-- Give the slot back once: to the heir, or to any job, if the seat grants it. The caller writes the seat
-- and sees to the attempt. What became of slots is gathered in `freed`.
local function free(keys, now, seat, x, freed)
  seat.held = max(0, seat.held - 1)
  local heir = x.peer ~= '' and x.state == CANCELLING and find_attempt(keys, x.peer, now)
  if heir and heir.state == HEIR then
    if free_slots(seat, now) > 0 then
      heir.index, heir.state, heir.epoch, heir.node = seat.index, DISPATCHED, seat.epoch, seat.node
      heir.dispatched, heir.due, heir.run_until, heir.peer = now, now + heir.run_until, 0, ''
      write(keys, heir)
      seat.held = seat.held + 1
      freed.inherited[#freed.inherited + 1] = heir.job
      freed.inherited[#freed.inherited + 1] = heir.id
      return
    end
    call('HDEL', keys[ATTEMPTS], heir.id)
  end
  if free_slots(seat, now) > 0 then freed.slots = freed.slots + 1 end
end

local function freeing()
  return {slots = 0, inherited = {}}
end

-- Until when a finished attempt has a tombstone beside its end.
local function grave_of(x)
  return #x.peer == 8 and (unpk('<d', x.peer)) or 0
end

-- Leave a tombstone for the attempt, or take it out when none is needed.
local function bury(keys, x, now, till)
  local id = name_of(x)
  if x.id ~= id then
    call('HDEL', keys[ATTEMPTS], x.id)
    local before = find_attempt(keys, id, now)
    if before and before.state == TOMBSTONE then
      before.due = max(before.due, till)
      write(keys, before)
    elseif before and before.state == FINISHED then
      before.peer = pack('<d', max(grave_of(before), till))
      write(keys, before)
    end
    if before or till <= now then return end
    x.id = id
  elseif till <= now then
    call('HDEL', keys[ATTEMPTS], id)
    return
  end
  x.state, x.due, x.peer, x.extra = TOMBSTONE, till, '', ''
  write(keys, x)
end

-- A tombstone for an attempt that the cell does not know.
local function bury_unknown(keys, id, till)
  call('HSET', keys[ATTEMPTS], id, pack(ENTRY, 0, TOMBSTONE, 0, 0, 0, 0, 0, 0, 0, till, 0, 0, 0, 0, 0,
    NO_NODE, 0, '', 0, '', 0, ''))
end

-- Keep how the attempt ended until its driver has settled it.
local function keep_end(keys, x, now, due, ended)
  local owner = call('HGET', keys[SEATS], 'i' .. x.index) or ''
  x.state, x.finished, x.due, x.peer = FINISHED, now, due, ''
  x.extra = pack('<H', #owner) .. owner .. ended
  write(keys, x)
end

-- The node no longer has the attempt: a cancelled one is gone, another one is lost.
local function give_up(keys, now, seat, x, freed, lost_end)
  local cancelled = x.state == CANCELLING
  free(keys, now, seat, x, freed)
  if cancelled then
    bury(keys, x, now, now + x.lease)
  else
    keep_end(keys, x, now, now + LOST_DUE_MS, lost_end)
  end
end

-- The node has it: from now on heartbeats keep the lease and the run time counts.
local function acknowledge_attempt(x, word)
  if not has_flag(x, ACKED) then
    set_flag(x, ACKED)
    x.number = word
  end
end

local function accept(x, word, now)
  acknowledge_attempt(x, word)
  if x.accepted == 0 then x.accepted, x.run_until = now, now + x.run end
  x.due = min(now + x.lease, x.run_until)
end

-- The node says that it runs the attempt: that is as good as an acknowledgement.
local function listed(keys, x, word, now)
  if x.state == CANCELLING then
    acknowledge_attempt(x, word)
  else
    if x.state == DISPATCHED then x.state = ACCEPTED end
    accept(x, word, now)
  end
  write(keys, x)
end

local function cancel_attempt(keys, x, now, grace_ms, problem)
  x.state, x.extra, x.lease, x.finished, x.due = CANCELLING, problem, grace_ms, now, now + grace_ms
  write(keys, x)
end

-- --- asking for a slot ------------------------------------------------------------------------------------

-- time, ack_ms, lease_ms, run_ms, class, preemptions, strategy, two chances in 256, how many candidates come
-- first, headroom; attempt_id
local ASK = '<dI4I4I4BBBBBBdBc0'
local RANDOM, POWER_OF_TWO, LEAST_LOADED, LATENCY_WEIGHTED = 0, 1, 2, 3

local function load_of(seat) return seat.held / seat.slots end

-- How long one more job would take there; a node not measured yet counts as instant.
local function expected_ms(seat) return seat.mean * (1 + load_of(seat)) end

-- The lowest cost; among equals each has the same chance, so that jobs do not herd.
local function cheapest(seats, cost, chance)
  local lowest, equals = math.huge, {}
  for _, seat in ipairs(seats) do
    local value = cost(seat)
    if value < lowest then lowest, equals = value, {} end
    if value == lowest then equals[#equals + 1] = seat end
  end
  return equals[floor(chance / 256 * #equals) + 1]
end

-- A seat of the candidates with a free slot, or nil and why there is none.
local function choose(keys, now, candidates, near, class, strategy, headroom, chance, second_chance)
  local board = call('GET', keys[BOARD])
  if not board then return nil, 'cold' end
  local found, promised, slots, spare, first = {}, {}, 0, -1, 0
  for i = 1, #candidates do
    local seat = seat_on(board, byte(candidates, i))
    if seat then
      slots = slots + seat.slots
      if seat.free > 0 and seat.alive > now then
        local list = i <= near and is_promised(seat.promise, now) and promised or found
        list[#list + 1] = seat
        spare = spare + seat.free
      end
    end
    if i == near then first = #found end
  end
  if #found == 0 then found = promised end
  if #found == 0 then return nil, 'full' end
  if class == 1 and spare < floor(headroom * slots) then return nil, 'headroom' end
  if first > 0 then
    for i = #found, first + 1, -1 do found[i] = nil end
  end
  if strategy == LEAST_LOADED then return cheapest(found, load_of, chance) end
  if strategy == LATENCY_WEIGHTED then return cheapest(found, expected_ms, chance) end
  local one = table.remove(found, floor(chance / 256 * #found) + 1)
  if strategy == RANDOM then return one end
  if strategy ~= POWER_OF_TWO then error('there is no strategy ' .. strategy) end
  local other = found[floor(second_chance / 256 * #found) + 1]
  return other and load_of(other) < load_of(one) and other or one
end

-- Text is a cheaper answer than a table: of those the server looks up seven fields each.
-- index, epoch, node, when, the seat's stamp (-1: not known)
local GRANTED = '<BI4c8dd'

-- What an earlier ask with the same attempt_id got here: granted, gone, or nothing that counts.
local function granted_before(x)
  if not x or x.state == HEIR then return nil end
  if x.state >= CANCELLING then return {'gone'} end
  return pack(GRANTED, x.index, x.epoch, x.node, x.dispatched, -1)
end

-- Hold a slot; answers granted or gone, or nil and why there is none.
local function grant(keys, now, args)
  local _, ack_ms, lease_ms, run_ms, class, preemptions, strategy, chance, second_chance, near,
    headroom, id = unpk(ASK, args[1])
  local candidates, draws = args[2], args[3]
  local index, free_now, slots, held, flags, promise, epoch, stamp, changed, alive, mean, node
  -- A few blind draws settle a cell with room without reading it all.
  for i = 1, #draws do
    local record = call('GETRANGE', keys[BOARD], FROM[byte(draws, i)], TO[byte(draws, i)])
    if #record == RECORD_BYTES then
      free_now, slots, held, flags, promise, epoch, stamp, changed, alive, mean, node =
        unpk(RECORD, record)
      if free_now > 0 and alive > now and (near == 0 or not is_promised(promise, now)) then
        index = byte(draws, i)
        break
      end
    end
  end
  if not index then
    local seat, why =
      choose(keys, now, candidates, near, class, strategy, headroom, chance, second_chance)
    if not seat then
      local x = find_attempt(keys, id, now)
      local before = granted_before(x or held_of(keys, x, id, now))
      if before then return before end
      return nil, why
    end
    index, free_now, slots, held, epoch, stamp, node =
      seat.index, seat.free, seat.slots, seat.held, seat.epoch, seat.stamp, seat.node
  end
  local entry = pack(FRESH, index, DISPATCHED, class, 0, preemptions, epoch, lease_ms, run_ms, 0,
    now + ack_ms, now, 0, 0, 0, 0, node) .. args[4]
  if call('HSETNX', keys[ATTEMPTS], id, entry) == 0 then
    local x = find_attempt(keys, id, now)
    local before = granted_before(x or held_of(keys, x, id, now))
    if before then return before end
    stop_waiting(keys, x, now)
    call('HSET', keys[ATTEMPTS], id, entry)
  end
  call('SETRANGE', keys[BOARD], FROM[index], pack('>HHH', free_now - 1, slots, held + 1))
  return pack(GRANTED, index, epoch, node, now, stamp)
end

-- reserve: choose a candidate with a free slot and hold it.
-- args     1 ASK; 2 candidates: one byte, the seat's index, for each, those that come first at the head; 3
--          candidates to try blindly, for a random choice; 4 job_id, instance_id, '' as in ENTRY; 5 instance and pair that wait, '' for none
-- answers  GRANTED | full | headroom | cold | gone
local function reserve(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local granted, why = grant(keys, now, args)
  if granted then return granted end
  if args[5] ~= '' and why ~= 'cold' then
    local _, _, _, _, class = unpk(ASK, args[1])
    note_waiting(keys, now, class, args[2], args[5])
  end
  return {why}
end

-- preempt: cancel a batch attempt on a candidate and name the asker its heir.
-- args     as for reserve; 6 '<I4I4' max_preemptions, grace_ms, then the error of the victim; then attempts that
--          may do, the best first
-- answers  GRANTED | gone | preempting job_id attempt_id instance_id index epoch node at_ms | no_victim
local function preempt(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local granted = grant(keys, now, args)
  if granted then return granted end
  local _, ack_ms, lease_ms, run_ms, class, preemptions, _, _, _, _, _, id = unpk(ASK, args[1])
  local max_preemptions, grace_ms, problem_at = unpk('<I4I4', args[6])
  local heir = find_attempt(keys, id, now)
  local victim = heir and find_attempt(keys, heir.peer, now)
  for i = 7, victim and 0 or #args do
    local x = find_attempt(keys, args[i], now)
    local seat = x and x.state < CANCELLING and read_seat(keys, x.index)
    if seat and x.class == 1 and x.preemptions < max_preemptions
      and find(args[2], char(x.index), 1, true) and seat.node == x.node
      and seat.online and not seat.drained and seat.alive > now and seat.held <= seat.slots then
      victim = x
      victim.peer = id
      cancel_attempt(keys, victim, now, grace_ms, sub(args[6], problem_at))
      call('HSET', keys[ATTEMPTS], id, pack(FRESH, 0, HEIR, class, 0, preemptions, 0, lease_ms, run_ms, 0,
        0, 0, 0, 0, 0, ack_ms, NO_NODE) .. sub(args[4], 1, -2) .. char(#victim.id) .. victim.id)
      break
    end
  end
  if not victim then return {'no_victim'} end
  return {'preempting', victim.job, victim.id, victim.instance, victim.index, victim.epoch,
    victim.node, victim.finished}
end

-- --- words of nodes -------------------------------------------------------------------------------------

local SENDER = '<dI4c8Bc0'

-- The attempt that holds a slot, if the sender may speak for it; otherwise nil and the reason.
local function spoken_of(keys, x, id, now, node, epoch)
  local held = held_of(keys, x, id, now)
  x = held or x
  if not x or x.state == HEIR then return nil, 'unknown_job' end
  if x.state == TOMBSTONE then return nil, has_flag(x, BY_NODE) and 'duplicate' or 'late' end
  if x.node ~= node then return nil, 'wrong_node' end
  if x.epoch ~= epoch then return nil, 'old_attempt' end
  if x.state == FINISHED then return nil, has_flag(x, BY_NODE) and 'duplicate' or 'late' end
  return x
end

-- dispatched, accepted, running, finished, whether a slot came free; then job_id
local FREED = '<ddddB'
local NONE = {}

-- Where the time when it is due, and when it finished, stand in an entry, and what is before and after them.
local DUE_AT, FINISHED_AT = 22, 54

-- The entry of an attempt that finished now; `at` is where its instance stands.
local function finished_entry(keys, now, index, flags, entry, at, due, ended)
  local owner = call('HGET', keys[SEATS], 'i' .. index) or ''
  return sub(entry, 1, 1) .. char(FINISHED) .. sub(entry, 3, 3)
    .. char(flags % (2 * BY_NODE) >= BY_NODE and flags or flags + BY_NODE) .. sub(entry, 5, DUE_AT - 1)
    .. pack('<d', due) .. sub(entry, DUE_AT + 8, FINISHED_AT - 1) .. pack('<d', now)
    .. sub(entry, FINISHED_AT + 8, at + byte(entry, at)) .. '\0' .. pack('<H', #owner) .. owner .. ended
end

-- The ordinary end: an attempt that holds a slot of its node's seat, and whose end lies in its entry, if it is kept
-- at all (`ended`), or leaves no tombstone. Nothing is put into tables for it. Answers nil where `finish` must look
-- closer.
local function finish_plainly(keys, now, id, entry, waiters, epoch, node, well, due, ended)
  local index, state, _, entry_flags, _, its_epoch, _, _, _, _, dispatched, accepted, running, _, _, its_node, job,
    at = unpk(PLAIN, entry)
  if state >= CANCELLING or its_node ~= node or its_epoch ~= epoch then return nil end
  local record = call('GETRANGE', keys[BOARD], FROM[index], TO[index])
  if #record ~= RECORD_BYTES then return nil end
  local _, slots, held, flags, promise, seat_epoch, stamp, changed, alive, mean, seated = unpk(RECORD, record)
  if flags < SEATED or seated ~= node or held == 0 then return nil end
  if well == 1 then
    local service = max(1, now - (accepted > 0 and accepted or dispatched))
    mean = mean == 0 and service or mean + MEAN_WEIGHT * (service - mean)
  end
  held = held - 1
  -- Online and not drained: of the three flags, these two as they must be.
  local left = flags == SEATED + ONLINE and max(0, slots - held) or 0
  call('SETRANGE', keys[BOARD], FROM[index], pack(RECORD, left, slots, held, flags, promise, seat_epoch, stamp,
    changed, alive, mean, seated))
  if ended then
    call('HSET', keys[ATTEMPTS], id, finished_entry(keys, now, index, entry_flags, entry, at, due, ended))
  else
    call('HDEL', keys[ATTEMPTS], id)
  end
  local came_free = left > 0 and alive > now
  local woken = waiters and came_free and wake(keys, now, index, 1, waiters) or NONE
  if #woken == 0 then return pack(FREED, dispatched, accepted, running, now, came_free and 1 or 0) .. job end
  return {'freed', job, dispatched, accepted, running, now, 1, NONE, woken}
end

-- finish: the node ended the attempt; free the slot.
-- args     1 SENDER: time, epoch, node, attempt_id; then '<I4BB' due_ms, whether it ended well, whether its end
--          is kept (2: its result under a key of its own, the fourth); 2 the end, if it is kept
-- answers  FREED | freed | late, then job_id, dispatched, accepted, running, finished, slots, inherited, woken
--          | stale reason | cold | unstored
local function finish(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, epoch, node, id, at = unpk(SENDER, args[1])
  local due_ms, well, keep = unpk('<I4BB', args[1], at)
  local both = call('HMGET', keys[ATTEMPTS], id, 'w')
  if both[1] and (keep == 1 or keep == 0 and due_ms == 0) then
    local answer =
      finish_plainly(keys, now, id, both[1], both[2], epoch, node, well, now + due_ms, keep == 1 and args[2])
    if answer then return answer end
  end
  local x, reason = spoken_of(keys, known(both[1], id, now), id, now, node, epoch)
  if not x then
    if reason == 'unknown_job' then return unknown(keys) end
    return {'stale', reason}
  end
  if keep == 2 and call('EXISTS', keys[4]) == 0 then return {'unstored'} end
  local seat, freed = seat_held_by(keys, x), freeing()
  local before = free_slots(seat, now)
  local word = 'freed'
  if x.state == CANCELLING then
    word = 'late'
    free(keys, now, seat, x, freed)
    bury(keys, x, now, now + x.lease)
  else
    if well == 1 then
      local service = max(1, now - (x.accepted > 0 and x.accepted or x.dispatched))
      seat.mean = seat.mean == 0 and service or seat.mean + MEAN_WEIGHT * (service - seat.mean)
    end
    set_flag(x, BY_NODE)
    free(keys, now, seat, x, freed)
    if keep > 0 then
      if keep == 2 then set_flag(x, RESULT_ELSEWHERE) end
      keep_end(keys, x, now, now + due_ms, args[2])
    else
      bury(keys, x, now, now + due_ms)
    end
  end
  write_seat(keys, seat)
  local woken = both[2] and wake(keys, now, x.index, free_slots(seat, now) - before, both[2]) or {}
  return {word, x.job, x.dispatched, x.accepted, x.running, now, freed.slots, freed.inherited, woken}
end

-- step: attempts were accepted or are run.
-- args     1 '<d' time; then for each '<I4c8BI4' epoch, node, state, number of the word, then attempt_id
-- answers  the positions of those that hold no slot, or not under the sender's connection, and did not end
--          by their node's word
local function step(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local ids, refused, writes = {}, {}, {}
  for i = 2, #args do ids[i - 1] = sub(args[i], 18) end
  local entries = call('HMGET', keys[ATTEMPTS], unpack(ids))
  local latest = {}
  for i, id in ipairs(ids) do
    local epoch, node, state, word = unpk('<I4c8BI4', args[i + 1])
    local x, reason = spoken_of(keys, latest[id] or known(entries[i], id, now), id, now, node, epoch)
    if not x then
      if reason ~= 'duplicate' then refused[#refused + 1] = i - 1 end
    else
      if x.state == CANCELLING then
        acknowledge_attempt(x, word)
      elseif state > x.state then
        x.state = state
        accept(x, word, now)
        if state == RUNNING then x.running = now end
      end
      if x.id == id then latest[id] = x end
      writes[#writes + 1] = x.id
      writes[#writes + 1] = entry_of(x)
    end
  end
  if #writes > 0 then call('HSET', keys[ATTEMPTS], unpack(writes)) end
  return refused
end

-- --- rare -----------------------------------------------------------------------------------------------

local function owner_of(keys, x)
  return x.state ~= FINISHED and call('HGET', keys[SEATS], 'i' .. x.index) or ''
end

-- cancel: win the attempt back from its node; the slot stays held until the node lets go.
-- args     1 '<dI4' time, grace_ms; attempt_id; 2 the error
-- answers  won | ended, then entry, owner | stale reason | cold
local function cancel(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, grace_ms, id = unpk('<dI4Bc0', args[1])
  local x = find_attempt(keys, id, now)
  if x and x.state == FINISHED then return {'ended', entry_of(x), ''} end
  local held = held_of(keys, x, id, now)
  if not held then
    return x and x.state == TOMBSTONE and {'stale', 'late'} or unknown(keys)
  end
  if held.state ~= CANCELLING then cancel_attempt(keys, held, now, grace_ms, args[2]) end
  return {'won', entry_of(held), owner_of(keys, held)}
end

-- drop: give back the slot of an attempt whose node was never told; no late reserve holds it again.
-- args     1 '<dI4' time, tombstone_ms; attempt_id
-- answers  as finish
local function drop(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, tombstone_ms, id = unpk('<dI4Bc0', args[1])
  local x = find_attempt(keys, id, now)
  if x and x.state == FINISHED then return {'stale', 'old_attempt'} end
  local held = held_of(keys, x, id, now)
  if not held then
    stop_waiting(keys, x, now)
    local till = now + tombstone_ms
    if x and x.state == TOMBSTONE then
      bury(keys, x, now, max(x.due, till))
    else
      bury_unknown(keys, id, till)
    end
    return {'stale', 'unknown_job'}
  end
  if has_flag(held, ACKED) or held.state ~= DISPATCHED then return {'stale', 'old_attempt'} end
  local seat, freed = seat_held_by(keys, held), freeing()
  local before = free_slots(seat, now)
  free(keys, now, seat, held, freed)
  bury(keys, held, now, now + tombstone_ms)
  write_seat(keys, seat)
  return {'freed', held.job, held.dispatched, held.accepted, held.running, 0, freed.slots,
    freed.inherited, wake(keys, now, seat.index, free_slots(seat, now) - before)}
end

-- settle: forget finished attempts whose results their drivers have.
-- args     1 '<d' time; then attempt_ids
-- answers  those whose results may lie elsewhere: such as have one there, and such as are not known (any more)
local function settle(keys, args, shared_now)
  local now, elsewhere = clock(args[1], shared_now), {}
  for i = 2, #args do
    local x = find_attempt(keys, args[i], now)
    if not x or x.state ~= FINISHED then
      elsewhere[#elsewhere + 1] = args[i]
    else
      if has_flag(x, RESULT_ELSEWHERE) then elsewhere[#elsewhere + 1] = args[i] end
      local grave = grave_of(x)
      if grave > now then unset_flag(x, BY_NODE) end
      if max(x.due, grave) > now then
        bury(keys, x, now, max(x.due, grave))
      else
        forget_over(keys, x.id)
      end
    end
  end
  return elsewhere
end

-- look: the attempt as it is; one that is unknown gets a tombstone, unless only a look is asked for
-- (tombstone_ms 0).
-- args     1 '<dI4' time, tombstone_ms; attempt_id
-- answers  attempt entry owner | tombstone
local function look(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, tombstone_ms, id = unpk('<dI4Bc0', args[1])
  local x = find_attempt(keys, id, now)
  if x and x.state == FINISHED then return {'attempt', entry_of(x), ''} end
  local held = held_of(keys, x, id, now)
  if held then return {'attempt', entry_of(held), owner_of(keys, held)} end
  if tombstone_ms == 0 then return {'tombstone'} end
  stop_waiting(keys, x, now)
  if x and x.state == TOMBSTONE then
    bury(keys, x, now, max(x.due, now + tombstone_ms))
  else
    bury_unknown(keys, id, now + tombstone_ms)
  end
  return {'tombstone'}
end

-- mark_asked: the node was asked to report; its next heartbeat decides about the attempt.
-- args     1 '<dI4' time, grace_ms; attempt_id
-- answers  done | stale reason | cold
local function mark_asked(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, grace_ms, id = unpk('<dI4Bc0', args[1])
  local x = find_attempt(keys, id, now)
  local held = held_of(keys, x, id, now)
  if not held or held.state ~= CANCELLING then
    return x and {'stale', 'unknown_job'} or unknown(keys)
  end
  set_flag(held, ASKED)
  held.due = now + grace_ms
  write(keys, held)
  return {'done'}
end

-- adopt: let an attempt that the cell did not know hold a slot, over the limit if need be.
-- args     1 '<dI4I4I4I4BB' time, epoch, lease_ms, run_ms, number of the word, class, whether it is wanted; node_id,
--          job_id, attempt_id, instance_id
-- answers  done | stale reason | not_seated | cold
local function adopt(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, epoch, lease_ms, run_ms, word, class, wanted, node_id, job, id, instance =
    unpk('<dI4I4I4I4BBBc0Bc0Bc0Bc0', args[1])
  local seat, refused = seat_of(keys, node_id, epoch)
  if not seat then return refused end
  local x = find_attempt(keys, id, now)
  local held = held_of(keys, x, id, now)
  if held then return held.node == seat.node and {'done'} or {'stale', 'wrong_node'} end
  local over = x and x.state ~= HEIR
  if wanted == 1 and over then return {'stale', 'late'} end
  stop_waiting(keys, x, now)
  local new = {id = over and id .. '~' or id, index = seat.index, class = class, flags = 0,
    state = wanted == 1 and RUNNING or CANCELLING, preemptions = 0, epoch = seat.epoch,
    lease = lease_ms, run = run_ms, number = 0, due = 0, dispatched = now, accepted = 0,
    running = now, finished = 0, run_until = 0, node = seat.node, job = job, instance = instance,
    peer = '', extra = ''}
  accept(new, word, now)
  if wanted == 0 then new.lease, new.finished = LOST_DUE_MS, now end
  write(keys, new)
  seat.held = seat.held + 1
  write_seat(keys, seat)
  return {'done'}
end

-- clear: take out tombstones that have stood long enough.
-- args     1 '<d' time; then attempt_ids
-- answers  how many
local function clear(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local over = 0
  for i = 2, #args do
    local entry = call('HGET', keys[ATTEMPTS], args[i])
    if entry and not known(entry, args[i], now) then
      forget_over(keys, args[i])
      over = over + 1
    end
  end
  return over
end

register('reserve', reserve)
register('preempt', preempt)
register('finish', finish, 'allow-oom')
register('step', step, 'allow-oom')
register('cancel', cancel, 'allow-oom')
register('drop', drop, 'allow-oom')
register('settle', settle, 'allow-oom')
register('look', look)
register('mark_asked', mark_asked, 'allow-oom')
register('adopt', adopt)
register('clear', clear, 'allow-oom')
