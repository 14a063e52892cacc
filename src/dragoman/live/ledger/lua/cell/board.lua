-- The cell's keys and its board: one string with 32 bytes of numbers for each seat.
-- Record 0 holds the cell's version; the record of seat i is number i + 1. A cell without a
-- board is cold: it lost its memory or never had any.
local BOARD, SEATS, HELD, ENDED = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local OUTPUTS, HOLDS, DUE, HEIRS = KEYS[5], KEYS[6], KEYS[7], KEYS[8]

local RECORD_BYTES = 32
local RECORD = '>HHHBBddd'
local ONLINE, DRAINED, SEATED = 1, 2, 4

local header = redis.call('GETRANGE', BOARD, 0, 7)
local version = #header == 8 and struct.unpack('>d', header) or nil

local function set_version(value)
  version = value
  written[BOARD] = true
  redis.call('SETRANGE', BOARD, 0, struct.pack('>d', value))
end

-- The seat in a record of the board, or nil when no node sits there. `free` is what may be
-- granted: none while the node is offline, drained or silent.
local function seat_in(board, at, index)
  local free, slots, held, flags, _, epoch, alive_until_ms, mean_ms =
    struct.unpack(RECORD, board, at)
  if flags < SEATED then return nil end
  return {
    index = index, free = free, slots = slots, held = held, epoch = epoch,
    online = flags % 2 == 1, drained = flags % SEATED >= DRAINED,
    alive_until_ms = alive_until_ms, mean_ms = mean_ms,
  }
end

local function read_seat(index)
  local at = RECORD_BYTES * (index + 1)
  local record = redis.call('GETRANGE', BOARD, at, at + RECORD_BYTES - 1)
  return #record == RECORD_BYTES and seat_in(record, 1, index) or nil
end

-- The seats of a whole board that was read once.
local function seat_of_board(board, index)
  local at = RECORD_BYTES * (index + 1) + 1
  return at + RECORD_BYTES - 1 <= #board and seat_in(board, at, index) or nil
end

local function takes(seat)
  return seat.online and not seat.drained and seat.alive_until_ms > now_ms
    and seat.held < seat.slots
end

local function write_seat(seat)
  seat.free = takes(seat) and seat.slots - seat.held or 0
  local flags = SEATED + (seat.online and ONLINE or 0) + (seat.drained and DRAINED or 0)
  written[BOARD] = true
  redis.call('SETRANGE', BOARD, RECORD_BYTES * (seat.index + 1), struct.pack(RECORD,
    seat.free, seat.slots, seat.held, flags, 0, seat.epoch, seat.alive_until_ms, seat.mean_ms))
end

local function clear_seat(index)
  redis.call('SETRANGE', BOARD, RECORD_BYTES * (index + 1), string.rep('\0', RECORD_BYTES))
end

-- The seat a sender speaks for, or nil and the answer it gets instead.
local function seat_of(node_id, epoch)
  if not version then return nil, {'cold'} end
  local index = redis.call('HGET', SEATS, 'n' .. node_id)
  local seat = index and read_seat(tonumber(index))
  if not seat or epoch > seat.epoch then return nil, {'not_seated'} end
  if epoch < seat.epoch then return nil, {'stale', 'old_attempt'} end
  return seat
end

-- Who sits there, as the text that was given when it was placed.
local function owner_of(seat)
  return redis.call('HGET', SEATS, 'i' .. seat.index)
end

-- A cell that holds nothing any more leaves nothing behind.
local function discard_if_empty()
  if redis.call('HLEN', SEATS) == 0 and redis.call('HLEN', ENDED) == 0 then
    redis.call('DEL', unpack(KEYS))
    version = nil
  end
end
