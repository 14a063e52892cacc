-- forget: take the node out of the directory, unless a newer connection owns it.
-- arguments  node_id, epoch
-- answers    done | stale reason
local function operation(arguments)
  local node_id, epoch = unpack(arguments)
  local known = read(node_id)
  if known then
    if known[EPOCH] ~= epoch then return {'stale', 'old_attempt'} end
    redis.call('HDEL', ENTRIES, node_id)
    leave(node_id, known[CELL])
  end
  return {'done'}
end
