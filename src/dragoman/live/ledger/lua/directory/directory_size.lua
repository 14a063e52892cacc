-- directory_size: how many nodes are known.
-- answers    nodes
local function operation()
  return {redis.call('HLEN', ENTRIES)}
end
