-- members: the nodes that live in a cell.
-- arguments  cell
-- answers    node_id, ...
local function operation(arguments)
  return redis.call('ZRANGEBYSCORE', MEMBERS, arguments[1], arguments[1])
end
