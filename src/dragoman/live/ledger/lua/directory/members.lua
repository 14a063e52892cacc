-- members: the nodes that live in a cell.
-- arguments  cell
-- answers    node_id, ...
operations.members = function(arguments)
  return redis.call('ZRANGEBYSCORE', MEMBERS, arguments[1], arguments[1])
end
