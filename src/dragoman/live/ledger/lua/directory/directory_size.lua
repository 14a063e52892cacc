-- directory_size: how many nodes are known.
-- answers    nodes
operations.directory_size = function()
  return {redis.call('HLEN', ENTRIES)}
end
