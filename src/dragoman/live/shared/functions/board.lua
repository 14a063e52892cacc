-- A cell's board: one string with a record of 44 bytes for each seat. Record 0 begins with the
-- cell's version and the one it was made with; its other 28 bytes are zero, and free. The record of seat i is number
-- i + 1. A cell without a board has no seats: it is cold. Every function of a cell has the same keys: BOARD, ATTEMPTS and SEATS, a hash with
--   n<node_id>  its seat's index
--   i<index>    who sits there, packed by the asker
--   f<index>    what other instances need to know of the node
-- A seat's stamp is drawn anew whenever it is taken, so that askers may remember who sits there. Its record
-- says with which version it changed last, modulo 2^32, also when no node sits there any more.
local BOARD, ATTEMPTS, SEATS = 1, 2, 3
local RECORD, RECORD_BYTES = '>HHHBBI4I4I4ddc8', 44
local ONLINE, DRAINED, SEATED = 1, 2, 4
local FROM, TO, PROMISE = {}, {}, {}
local VERSIONS = 4294967296

prepare = function()
  for index = 0, 255 do
    FROM[index] = tostring(RECORD_BYTES * (index + 1))
    TO[index] = tostring(RECORD_BYTES * (index + 1) + RECORD_BYTES - 1)
    PROMISE[index] = tostring(RECORD_BYTES * (index + 1) + 7)
  end
end

-- A seat says in one byte in which second an instance that waits was last woken for a slot of it, 0: in none.
-- Until the second is over, and the next, other instances' own nodes do not come first there.
local function promise_of(now)
  return floor(now / 1000) % 255 + 1
end

local function is_promised(promise, now)
  return promise > 0 and (promise_of(now) - promise) % 255 <= 1
end

-- The seat in a record, or nil when no node sits there. `free` is what may be granted while the
-- node is alive: nothing when it is offline or drained.
local function seat_in(record, at, index)
  local free, slots, held, flags, promise, epoch, stamp, changed, alive, mean, node =
    unpk(RECORD, record, at)
  if flags < SEATED then return nil end
  return {index = index, free = free, slots = slots, held = held, promise = promise, epoch = epoch, stamp = stamp,
    changed = changed, alive = alive, mean = mean, node = node, online = flags % 2 == 1, drained = flags % 4 >= DRAINED}
end

local function read_seat(keys, index)
  local record = call('GETRANGE', keys[BOARD], FROM[index], TO[index])
  return #record == RECORD_BYTES and seat_in(record, 1, index) or nil
end

-- The seat of a whole board that was read once.
local function seat_on(board, index)
  local at = RECORD_BYTES * (index + 1) + 1
  return at + RECORD_BYTES - 1 <= #board and seat_in(board, at, index) or nil
end

local function free_slots(seat, now)
  local open = seat.online and not seat.drained and seat.alive > now
  return open and max(0, seat.slots - seat.held) or 0
end

local function write_seat(keys, seat)
  if seat.gone then return end
  local free = seat.online and not seat.drained and max(0, seat.slots - seat.held) or 0
  local flags = SEATED + (seat.online and ONLINE or 0) + (seat.drained and DRAINED or 0)
  call('SETRANGE', keys[BOARD], FROM[seat.index], pack(RECORD, free, seat.slots, seat.held, flags,
    seat.promise or 0, seat.epoch, seat.stamp, seat.changed, seat.alive, seat.mean, seat.node))
end

local function version_of(keys)
  local header = call('GETRANGE', keys[BOARD], '0', '7')
  return #header == 8 and unpk('>d', header) or nil
end

-- What others must know of the seat changes; the caller writes the seat. Answers the cell's version.
local function change(keys, seat)
  local version = version_of(keys) + 1
  call('SETRANGE', keys[BOARD], 0, pack('>d', version))
  seat.changed = version % VERSIONS
  return version
end

-- The seat that a sender speaks for, or nil and the answer it gets instead.
local function seat_of(keys, node_id, epoch)
  local index = call('HGET', keys[SEATS], 'n' .. node_id)
  local seat = index and read_seat(keys, tonumber(index))
  if not seat then
    return nil, {call('EXISTS', keys[BOARD]) == 1 and 'not_seated' or 'cold'}
  end
  if epoch > seat.epoch then return nil, {'not_seated'} end
  if epoch < seat.epoch then return nil, {'stale', 'old_attempt'} end
  return seat
end
