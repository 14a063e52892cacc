-- The directory's keys, which have no time to live: entries leave when their nodes are forgotten.
-- ENTRIES leads from a node to its packed entry, MEMBERS scores each node with its cell, COUNTS says
-- how many live in each cell, FULL has a bit for each cell without room.
local ENTRIES, MEMBERS, COUNTS, FULL = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local CELL, HOLDER, INSTANCE_ID, CONNECTION_ID, EPOCH = 1, 2, 3, 4, 5

local function read(node_id)
  local packed = redis.call('HGET', ENTRIES, node_id)
  return packed and cmsgpack.unpack(packed) or nil
end

-- The lowest cell with room that is not one of those given, or nil.
local function cell_with_room(not_cells, max_cells)
  local refused = {}
  for _, cell in ipairs(not_cells) do refused[cell] = true end
  local full = redis.call('GET', FULL) or ''
  for cell = 0, max_cells - 1 do
    local byte = full:byte(math.floor(cell / 8) + 1) or 0
    local is_full = math.floor(byte / 2 ^ (7 - cell % 8)) % 2 == 1
    if not is_full and not refused[cell] then return cell end
  end
end

local function enter(node_id, cell, cell_size)
  redis.call('ZADD', MEMBERS, cell, node_id)
  if redis.call('HINCRBY', COUNTS, cell, 1) >= cell_size then redis.call('SETBIT', FULL, cell, 1) end
end

local function leave(node_id, cell)
  redis.call('ZREM', MEMBERS, node_id)
  if redis.call('HINCRBY', COUNTS, cell, -1) <= 0 then redis.call('HDEL', COUNTS, cell) end
  redis.call('SETBIT', FULL, cell, 0)
end
