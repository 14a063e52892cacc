-- forget: the session is over.
-- arguments  owner
-- answers    1 | 0 when another owns the session, or it is not known
local function operation(arguments)
  if not held(arguments[1], 0) then return 0 end
  redis.call('DEL', RECORD, DROPPED)
  return 1
end
