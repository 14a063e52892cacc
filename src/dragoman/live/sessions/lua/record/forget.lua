-- forget: the session is over.
-- arguments  epoch
-- answers    1 | 0 when another owns the session, or it is not known
local function operation(arguments)
  if not owned(arguments[1]) then return 0 end
  redis.call('DEL', RECORD)
  return 1
end
