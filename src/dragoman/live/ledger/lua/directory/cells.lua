-- cells: the cells that have members.
-- answers    cell, ...
operations.cells = function()
  return redis.call('HKEYS', COUNTS)
end
