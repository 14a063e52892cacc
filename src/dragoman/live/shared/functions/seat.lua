-- Seats: nodes in a cell. An operation on a seat settles what the seat holds, all of it in one step. It does
-- not look for that in the cell: the asker names the attempts that the node lists, and where their number is
-- not the seat's, the operation does nothing and answers `more`. The asker then looks through the cell from
-- outside, and names the others too.
--   ONLY_ALL  what is named must be all that the seat holds
--   AS_NAMED  what is not named is not settled: it was granted since the asker looked
--   LOOK      look through the cell here; the last resort, where attempts come faster than the asker looks, or
--             where the seat's number is wrong, which is put right
local ONLY_ALL, AS_NAMED, LOOK = 0, 1, 2

-- The attempts of a seat among those named from a position on, each once.
local function named_on(keys, args, from, seat, now)
  local found, ids, seen = {}, {}, {}
  for i = from, #args do
    if not seen[args[i]] then
      seen[args[i]] = true
      ids[#ids + 1] = args[i]
    end
  end
  if #ids == 0 then return found end
  local entries = call('HMGET', keys[ATTEMPTS], unpack(ids))
  for i, id in ipairs(ids) do
    local x = held_of(keys, known(entries[i], id, now), id, now)
    if x and x.index == seat.index and x.node == seat.node then found[#found + 1] = x end
  end
  return found
end

-- Every attempt that holds a slot of a seat, or of any when none is given, the oldest first.
local function all_held(keys, seat)
  local found, fields = {}, call('HGETALL', keys[ATTEMPTS])
  for i = 1, #fields, 2 do
    if fields[i] ~= 'w' then
      local x = attempt_in(fields[i + 1], fields[i])
      if x.state <= CANCELLING and (not seat or x.index == seat.index and x.node == seat.node) then
        found[#found + 1] = x
      end
    end
  end
  table.sort(found, function(a, b)
    if a.dispatched ~= b.dispatched then return a.dispatched < b.dispatched end
    return a.id < b.id
  end)
  return found
end

-- What the seat holds and their names; nil when more must be named.
local function settled(keys, args, from, seat, now, how)
  local attempts
  if how == LOOK then
    attempts = all_held(keys, seat)
    seat.held = #attempts
  else
    attempts = named_on(keys, args, from, seat, now)
    if how == ONLY_ALL and #attempts ~= seat.held then return nil end
  end
  local names = {}
  for _, x in ipairs(attempts) do names[name_of(x)] = true end
  return attempts, names
end

local function add(list, x)
  list[#list + 1] = x.job
  list[#list + 1] = name_of(x)
end

-- The positions of the named attempts that the seat does not hold.
local function unmatched(args, from, upto, held)
  local found = {}
  for i = from, upto do
    if not held[args[i]] then found[#found + 1] = i - from end
  end
  return found
end

local PLACE = '<dI4I4I4I4I4dBHc8Bc0'

-- take_seat: seat the node and settle the attempts of its older connections; warms a cold cell.
-- args     1 PLACE: time, epoch, stamp, slots, lease_ms, cell_size, first version, how attempts are found, how many
--          are listed, node, node_id; 2 owner; 3 facts; 4 the end of a lost attempt; then attempt_ids that the node
--          lists, then others of the seat
-- answers  placed index version drained passed lost cancelling unlisted slots inherited woken
--          | more | cell_full | stale reason
-- first version is random, so that a cell does not repeat one.
local function take_seat(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, epoch, stamp, slots, lease_ms, cell_size, first_version, how, listing, node, node_id =
    unpk(PLACE, args[1])
  local version = version_of(keys)
  local index = version and call('HGET', keys[SEATS], 'n' .. node_id)
  local seat = index and read_seat(keys, tonumber(index))
  if not version then
    -- What a board that was lost had granted is lost with it, as if the cell had never known it.
    for _, x in ipairs(all_held(keys)) do call('HDEL', keys[ATTEMPTS], x.id) end
    call('DEL', keys[SEATS])
    call('SETRANGE', keys[BOARD], 0, pack('>dd', first_version, first_version))
  end
  if not seat then
    local board = call('GET', keys[BOARD]) or ''
    for i = 0, cell_size - 1 do
      if not seat_on(board, i) then
        seat = {index = i, slots = 0, held = 0, mean = 0, epoch = epoch, drained = false, alive = 0,
          changed = 0, online = false, node = node}
        break
      end
    end
    if not seat then return {'cell_full'} end
  elseif epoch < seat.epoch then
    return {'stale', 'old_attempt'}
  end
  local attempts, names = settled(keys, args, 5, seat, now, how)
  if not attempts then return {'more'} end
  local before = free_slots(seat, now)
  seat.epoch, seat.stamp, seat.slots, seat.online = epoch, stamp, slots, true
  seat.alive = now + lease_ms
  version = change(keys, seat)
  local here = {}
  for i = 5, 4 + listing do here[args[i]] = true end
  local passed, lost, cancelling, freed = {}, {}, {}, freeing()
  for _, x in ipairs(attempts) do
    if x.epoch == epoch then
      -- Seated twice by the same connection: its own attempts are as they were.
    elseif here[name_of(x)] then
      x.epoch = epoch
      unset_flag(x, ACKED)
      listed(keys, x, 0, now)
      add(x.state == CANCELLING and cancelling or passed, x)
    else
      if x.state ~= CANCELLING then add(lost, x) end
      give_up(keys, now, seat, x, freed, args[4])
    end
  end
  call('HSET', keys[SEATS], 'n' .. node_id, seat.index, 'i' .. seat.index, args[2],
    'f' .. seat.index, args[3])
  write_seat(keys, seat)
  return {'placed', seat.index, string.format('%.0f', version), seat.drained and 1 or 0, passed,
    lost, cancelling, unmatched(args, 5, 4 + listing, names), freed.slots, freed.inherited,
    wake(keys, now, seat.index, free_slots(seat, now) - before)}
end

-- Whether a heartbeat of this number lists it, if the node has it. One that was not acknowledged may still be on
-- its way to the node, unless it is cancelled and the node was asked to report.
local function must_be_listed(x, word)
  if has_flag(x, ACKED) then return x.number <= word end
  return x.state == CANCELLING and has_flag(x, ASKED)
end

-- beat: renew the leases of what the node lists, and say where the two lists differ.
-- args     1 '<dI4I4I4BH' time, epoch, lease_ms, number of the word, how attempts are found, how many are listed;
--          node_id; 2 the end of a lost attempt; then attempt_ids that the node lists, then others of the seat
-- answers  beat lost unlisted cancelling slots inherited woken | more | stale reason | not_seated | cold
local function beat(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, epoch, lease_ms, word, how, listing, node_id = unpk('<dI4I4I4BHBc0', args[1])
  local seat, refused = seat_of(keys, node_id, epoch)
  if not seat then return refused end
  if not seat.online then return {'not_seated'} end
  local attempts, names = settled(keys, args, 3, seat, now, how)
  if not attempts then return {'more'} end
  local before = free_slots(seat, now)
  seat.alive = now + lease_ms
  local here = {}
  for i = 3, 2 + listing do here[args[i]] = true end
  local lost, cancelling, freed = {}, {}, freeing()
  for _, x in ipairs(attempts) do
    if here[name_of(x)] then
      listed(keys, x, word, now)
      if x.state == CANCELLING then add(cancelling, x) end
    elseif must_be_listed(x, word) then
      if x.state ~= CANCELLING then add(lost, x) end
      give_up(keys, now, seat, x, freed, args[2])
    end
  end
  write_seat(keys, seat)
  return {'beat', lost, unmatched(args, 3, 2 + listing, names), cancelling, freed.slots,
    freed.inherited, wake(keys, now, seat.index, free_slots(seat, now) - before)}
end

-- lose: the node did not come back in time; everything it held is ended, and its seat given up if that is asked.
-- args     1 '<dI4BBB' time, epoch, only if it is silent, whether the seat goes, how attempts are found; node_id; 2 the
--          end of a lost attempt; then attempt_ids of the seat
-- answers  lost attempts | more | stale reason | not_seated | cold
local function lose(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, epoch, only_if_silent, remove, how, node_id = unpk('<dI4BBBBc0', args[1])
  local seat, refused = seat_of(keys, node_id, epoch)
  if not seat then return refused end
  if only_if_silent == 1 and seat.alive > now then return {'stale', 'old_attempt'} end
  local attempts = settled(keys, args, 3, seat, now, how)
  if not attempts then return {'more'} end
  seat.online = false
  change(keys, seat)
  local lost, freed = {}, freeing()
  for _, x in ipairs(attempts) do
    if x.state ~= CANCELLING then add(lost, x) end
    give_up(keys, now, seat, x, freed, args[2])
  end
  if remove == 1 then
    call('HDEL', keys[SEATS], 'n' .. node_id, 'i' .. seat.index, 'f' .. seat.index)
    call('SETRANGE', keys[BOARD], FROM[seat.index],
      pack(RECORD, 0, 0, 0, 0, 0, 0, 0, seat.changed, 0, 0, NO_NODE))
    if call('HLEN', keys[SEATS]) == 0 then call('DEL', keys[BOARD]) end
  else
    write_seat(keys, seat)
  end
  return {'lost', lost}
end

-- amend: change a seat's slots or facts; fewer slots cancel nothing.
-- args     1 '<dI4i4B' time, epoch, slots (-1: as before), whether facts change; node_id; 2 facts
-- answers  done woken | stale reason | not_seated | cold
local function amend(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, epoch, slots, new_facts, node_id = unpk('<dI4i4BBc0', args[1])
  local seat, refused = seat_of(keys, node_id, epoch)
  if not seat then return refused end
  local before = free_slots(seat, now)
  if slots >= 0 then seat.slots = slots end
  if new_facts == 1 then call('HSET', keys[SEATS], 'f' .. seat.index, args[2]) end
  change(keys, seat)
  write_seat(keys, seat)
  return {'done', wake(keys, now, seat.index, free_slots(seat, now) - before)}
end

-- disconnect: the node's socket is lost; no slot is granted on it, what it holds is kept.
-- args     1 '<dI4' time, epoch; node_id
-- answers  done woken | stale reason | not_seated | cold
local function disconnect(keys, args, shared_now)
  clock(args[1], shared_now)
  local _, epoch, node_id = unpk('<dI4Bc0', args[1])
  local seat, refused = seat_of(keys, node_id, epoch)
  if not seat then return refused end
  seat.online = false
  change(keys, seat)
  write_seat(keys, seat)
  return {'done', {}}
end

-- set_drained: an operator's drain or resume; a drained seat is granted no slot.
-- args     1 '<dB' time, drained; node_id
-- answers  done woken | not_seated | cold
local function set_drained(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, drained, node_id = unpk('<dBBc0', args[1])
  if not version_of(keys) then return {'cold'} end
  local index = call('HGET', keys[SEATS], 'n' .. node_id)
  local seat = index and read_seat(keys, tonumber(index))
  if not seat then return {'not_seated'} end
  local before = free_slots(seat, now)
  seat.drained = drained == 1
  change(keys, seat)
  write_seat(keys, seat)
  return {'done', wake(keys, now, seat.index, free_slots(seat, now) - before)}
end

-- read_cell: the whole board and who sits where.
-- args     1 '<d' time
-- answers  version board seats (field, value, ...) | nothing when the cell is cold
local function read_cell(keys, args, shared_now)
  clock(args[1], shared_now)
  local version = version_of(keys)
  if not version then return {} end
  return {string.format('%.0f', version), call('GET', keys[BOARD]), call('HGETALL', keys[SEATS])}
end

-- read_changes: the seats that changed since a version; all of them when the cell was made anew since.
-- args     1 '<dd' time, version
-- answers  version whole (1 or 0) {index record owner facts ...} {index of a seat that is free ...} | nothing when the
--          cell is cold
local function read_changes(keys, args, shared_now)
  clock(args[1], shared_now)
  local _, since = unpk('<dd', args[1])
  local board = call('GET', keys[BOARD])
  if not board then return {} end
  local version, first = unpk('>dd', board)
  local whole = since < first or since > version
  local seats, free = {}, {}
  for index = 0, (whole or since < version) and #board / RECORD_BYTES - 2 or -1 do
    local at = RECORD_BYTES * (index + 1) + 1
    local _, _, _, flags, _, _, _, changed = unpk(RECORD, board, at)
    if whole or (version - changed) % VERSIONS < version - since then
      if flags >= SEATED then
        local known = call('HMGET', keys[SEATS], 'i' .. index, 'f' .. index)
        seats[#seats + 1] = index
        seats[#seats + 1] = sub(board, at, at + RECORD_BYTES - 1)
        seats[#seats + 1] = known[1]
        seats[#seats + 1] = known[2]
      else
        free[#free + 1] = index
      end
    end
  end
  return {string.format('%.0f', version), whole and 1 or 0, seats, free}
end

-- --- repairs, for the operator's check ------------------------------------------------------------------

-- recount: count the slots that are held on a seat.
-- args     1 '<dB' time, index
-- answers  held now, counted before | nothing when no node sits there
local function recount(keys, args, shared_now)
  clock(args[1], shared_now)
  local _, index = unpk('<dB', args[1])
  local seat = read_seat(keys, index)
  if not seat then return {} end
  local before = seat.held
  seat.held = #all_held(keys, seat)
  write_seat(keys, seat)
  return {seat.held, before}
end

-- clear_seat: free a seat that does not say which node has it; what it held is over.
-- args     1 '<dBI4I4c8' time, index, tombstone_ms, the seat's epoch and node as they were read; then fields of
--          nodes that lead to the seat
-- answers  1 | 0 when the seat was taken anew since
local function clear_seat(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, index, tombstone_ms, epoch, node = unpk('<dBI4I4c8', args[1])
  local seat = read_seat(keys, index)
  if not seat or seat.epoch ~= epoch or seat.node ~= node then return 0 end
  for _, x in ipairs(all_held(keys, seat)) do bury(keys, x, now, now + tombstone_ms) end
  for i = 2, #args do
    if call('HGET', keys[SEATS], args[i]) == tostring(index) then call('HDEL', keys[SEATS], args[i]) end
  end
  call('HDEL', keys[SEATS], 'i' .. index, 'f' .. index)
  change(keys, seat)
  call('SETRANGE', keys[BOARD], FROM[index],
    pack(RECORD, 0, 0, 0, 0, 0, 0, 0, seat.changed, 0, 0, NO_NODE))
  return 1
end

-- mend_attempt: end an attempt that holds a slot of no seat, or waits for a slot that does not come.
-- args     1 '<dI4' time, tombstone_ms; 2 its field
-- answers  1 | 0 when it is sound
local function mend_attempt(keys, args, shared_now)
  local now = clock(args[1], shared_now)
  local _, tombstone_ms = unpk('<dI4', args[1])
  local x = find_attempt(keys, args[2], now)
  if not x then return 0 end
  if x.state <= CANCELLING and seat_held_by(keys, x).gone then
    bury(keys, x, now, now + tombstone_ms)
    return 1
  end
  local victim = x.state == HEIR and find_attempt(keys, x.peer, now)
  if x.state == HEIR and not (victim and victim.state == CANCELLING and victim.peer == x.id) then
    call('HDEL', keys[ATTEMPTS], x.id)
    return 1
  end
  return 0
end

register('recount', recount, 'allow-oom')
register('clear_seat', clear_seat, 'allow-oom')
register('mend_attempt', mend_attempt, 'allow-oom')
register('take_seat', take_seat)
register('beat', beat, 'allow-oom')
register('lose', lose, 'allow-oom')
register('amend', amend)
register('disconnect', disconnect, 'allow-oom')
register('set_drained', set_drained)
register('read_cell', read_cell, 'no-writes')
register('read_changes', read_changes, 'no-writes')
