-- place: seat the node and settle every attempt of its older connections; warms a cold cell.
-- arguments  node_id, owner, epoch, slots, lease_ms, running, cell_size, first_version
-- blobs      facts
-- answers    placed index version drained passed lost cancelling unknown freed inherited
--            | cell_full | stale reason
-- first_version is random, so that a cell that lost its memory does not repeat a version.
local function free_index(cell_size)
  local board = redis.call('GET', BOARD)
  for index = 0, cell_size - 1 do
    if not seat_of_board(board, index) then return index end
  end
end

local function operation(arguments, facts)
  local node_id, owner, epoch, slots, lease_ms, running, cell_size, first_version =
    unpack(arguments)
  if not version then
    redis.call('DEL', unpack(KEYS))
    set_version(first_version)
  end
  local index = redis.call('HGET', SEATS, 'n' .. node_id)
  local seat = index and read_seat(tonumber(index))
  if not seat then
    index = free_index(cell_size)
    if not index then return {'cell_full'} end
    seat = {index = index, held = 0, mean_ms = 0, epoch = epoch, drained = false}
    hset(SEATS, 'n' .. node_id, index)
  elseif epoch < seat.epoch then
    return {'stale', 'old_attempt'}
  end
  seat.epoch, seat.slots, seat.online = epoch, slots, true
  seat.alive_until_ms = now_ms + lease_ms
  hset(SEATS, 'i' .. seat.index, owner)
  hset(SEATS, 'f' .. seat.index, facts)
  write_seat(seat)
  set_version(version + 1)

  local here, seen = names(running), {}
  local passed, lost, cancelling, freed = {}, {}, {}, freeing()
  for _, attempt_id in ipairs(held_by(seat)) do
    local attempt = read(HELD, attempt_id)
    seen[attempt_id] = true
    if attempt[EPOCH] == epoch then
      -- Placed twice by the same connection: its own attempts are as they were.
    elseif here[attempt_id] then
      attempt[OWNER], attempt[EPOCH], attempt[ACKED] = owner, epoch, false
      listed(attempt_id, attempt, 0)
      add(attempt[STATE] == 'CANCELLING' and cancelling or passed, attempt_id, attempt)
    else
      if attempt[STATE] ~= 'CANCELLING' then add(lost, attempt_id, attempt) end
      give_up(seat, attempt_id, attempt, freed)
    end
  end
  return {'placed', seat.index, string.format('%.0f', version), seat.drained and 1 or 0,
    passed, lost, cancelling, unmatched(running, seen), freed.slots, freed.inherited}
end
