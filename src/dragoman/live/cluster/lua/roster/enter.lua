-- enter: put an instance on the roster.
-- arguments  instance_id, incarnation
-- answers    done
local function operation(arguments)
  hset(KNOWN, arguments[1], arguments[2])
  return {'done'}
end
