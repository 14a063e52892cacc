-- register: give the node a cell (the lowest with room) and make the connection its owner.
-- arguments  node_id, instance_id, connection_id, holder, known_holder, exclusive, at_least_epoch,
--            not_cells, cell_size, max_cells
-- answers    registered entry previous_entry ('' for none) | conflict | full
local function operation(arguments)
  local node_id, instance_id, connection_id, holder, known_holder, exclusive, at_least_epoch,
    not_cells, cell_size, max_cells = unpack(arguments)
  local known = read(node_id)
  local before = known and cmsgpack.pack(known) or ''
  local cell
  if known then
    local theirs = known[HOLDER]
    if exclusive and theirs ~= '' and theirs ~= holder and theirs ~= known_holder then
      return {'conflict'}
    end
    if holder == '' then holder = theirs end
    cell = known[CELL]
    for _, refused in ipairs(not_cells) do
      if refused == cell then cell = nil end
    end
    if cell and known[CONNECTION_ID] == connection_id and theirs == holder then
      return {'registered', before, ''}
    end
  end
  if not cell then
    cell = cell_with_room(not_cells, max_cells)
    if not cell then return {'full'} end
    if known then leave(node_id, known[CELL]) end
    enter(node_id, cell, cell_size)
  end
  local entry = cmsgpack.pack({
    cell, holder, instance_id, connection_id,
    math.max(known and known[EPOCH] or 0, at_least_epoch) + 1,
  })
  redis.call('HSET', ENTRIES, node_id, entry)
  return {'registered', entry, before}
end
