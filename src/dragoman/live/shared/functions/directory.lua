-- The directory: which cell a node lives in. Its keys have no time to live: entries leave when their nodes are
-- forgotten. ENTRIES leads from a node to '<I4I4' cell, epoch, then holder, instance_id and connection_id; MEMBERS
-- scores each node with its cell, COUNTS says how many live in each.
local ENTRIES, MEMBERS, COUNTS = 1, 2, 3
local KNOWN = '<I4I4Bc0Bc0Bc0'

local function enter(keys, node_id, cell)
  call('ZADD', keys[MEMBERS], cell, node_id)
  call('HINCRBY', keys[COUNTS], cell, 1)
end

local function leave(keys, node_id, cell)
  call('ZREM', keys[MEMBERS], node_id)
  if call('HINCRBY', keys[COUNTS], cell, -1) <= 0 then call('HDEL', keys[COUNTS], cell) end
end

-- The lowest cell with room that is not one of those refused.
local function cell_with_room(keys, refused, cell_size, max_cells)
  local counts, known = {}, call('HGETALL', keys[COUNTS])
  for i = 1, #known, 2 do counts[tonumber(known[i])] = tonumber(known[i + 1]) end
  for cell = 0, max_cells - 1 do
    if (counts[cell] or 0) < cell_size and not refused[cell] then return cell end
  end
end

-- enroll: give the node a cell (the lowest with room) and make the connection its owner.
-- args     1 '<dI4I4I4B' time, cell_size, max_cells, at_least_epoch, exclusive; node_id, holder, known_holder, instance_id,
--          connection_id; then cells that turned out to be full
-- answers  registered entry previous_entry ('' for none) | conflict | full
local function enroll(keys, args, shared_now)
  clock(args[1], shared_now)
  local _, cell_size, max_cells, at_least_epoch, exclusive, node_id, holder, known_holder, instance,
    connection = unpk('<dI4I4I4BBc0Bc0Bc0Bc0Bc0', args[1])
  local refused = {}
  for i = 2, #args do refused[tonumber(args[i])] = true end
  local before = call('HGET', keys[ENTRIES], node_id)
  local cell, epoch = nil, 0
  if before then
    local theirs, its_connection, _
    cell, epoch, theirs, _, its_connection = unpk(KNOWN, before)
    if exclusive == 1 and theirs ~= '' and theirs ~= holder and theirs ~= known_holder then
      return {'conflict'}
    end
    if holder == '' then holder = theirs end
    if not refused[cell] and its_connection == connection and theirs == holder then
      return {'registered', before, ''}
    end
  end
  if not cell or refused[cell] then
    local new = cell_with_room(keys, refused, cell_size, max_cells)
    if not new then return {'full'} end
    if cell then leave(keys, node_id, cell) end
    enter(keys, node_id, new)
    cell = new
  end
  local entry = pack(KNOWN, cell, max(epoch, at_least_epoch) + 1, #holder, holder, #instance, instance,
    #connection, connection)
  call('HSET', keys[ENTRIES], node_id, entry)
  return {'registered', entry, before or ''}
end

-- forget: take the node out of the directory, unless a newer connection owns it.
-- args     1 '<dI4' time, epoch; node_id
-- answers  1 | 0
local function forget(keys, args, shared_now)
  clock(args[1], shared_now)
  local _, epoch, node_id = unpk('<dI4Bc0', args[1])
  local entry = call('HGET', keys[ENTRIES], node_id)
  if not entry then return 1 end
  local cell, its_epoch = unpk(KNOWN, entry)
  if its_epoch ~= epoch then return 0 end
  call('HDEL', keys[ENTRIES], node_id)
  leave(keys, node_id, cell)
  return 1
end

-- mend_member: list a node in the cell that its entry names, or in none.
-- args     1 '<d' time; node_id
-- answers  1
local function mend_member(keys, args, shared_now)
  clock(args[1], shared_now)
  local entry = call('HGET', keys[ENTRIES], args[2])
  if entry then
    call('ZADD', keys[MEMBERS], (unpk(KNOWN, entry)), args[2])
  else
    call('ZREM', keys[MEMBERS], args[2])
  end
  return 1
end

-- mend_count: count the nodes of a cell.
-- args     1 '<d' time; cell
-- answers  how many there are
local function mend_count(keys, args, shared_now)
  clock(args[1], shared_now)
  local members = call('ZCOUNT', keys[MEMBERS], args[2], args[2])
  if members == 0 then
    call('HDEL', keys[COUNTS], args[2])
  else
    call('HSET', keys[COUNTS], args[2], members)
  end
  return members
end

-- copy_entry: enter a node that is not known yet, as one without a connection.
-- args     1 '<dI4I4I4' time, cell_size, max_cells, epoch; node_id, holder
-- answers  cell | -1 when it is known already, or no cell has room
local function copy_entry(keys, args, shared_now)
  clock(args[1], shared_now)
  local _, cell_size, max_cells, epoch, node_id, holder = unpk('<dI4I4I4Bc0Bc0', args[1])
  local known = call('HGET', keys[ENTRIES], node_id)
  if known then
    local cell, its_epoch, _, _, connection = unpk(KNOWN, known)
    -- Copied before, and perhaps not to the end.
    return connection == '' and its_epoch == epoch and cell or -1
  end
  local cell = cell_with_room(keys, {}, cell_size, max_cells)
  if not cell then return -1 end
  enter(keys, node_id, cell)
  call('HSET', keys[ENTRIES], node_id, pack(KNOWN, cell, epoch, #holder, holder, 0, '', 0, ''))
  return cell
end

-- known_nodes: how many nodes are known.
-- args     1 '<d' time
-- answers  the number
local function known_nodes(keys, args, shared_now)
  clock(args[1], shared_now)
  return call('HLEN', keys[ENTRIES])
end

register('known_nodes', known_nodes, 'no-writes')
register('copy_entry', copy_entry)
register('mend_member', mend_member, 'allow-oom')
register('mend_count', mend_count, 'allow-oom')
register('enroll', enroll)
register('forget', forget, 'allow-oom')
