-- cells: the cells that have members.
-- answers    cell, ...
local function operation()
  return redis.call('HKEYS', COUNTS)
end
