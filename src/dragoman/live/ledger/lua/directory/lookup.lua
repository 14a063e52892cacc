-- lookup: where a node lives.
-- arguments  node_id
-- answers    entry | nothing
local function operation(arguments)
  return {redis.call('HGET', ENTRIES, arguments[1]) or nil}
end
