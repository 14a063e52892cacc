-- renew: go on owning the session.
-- arguments  epoch
-- answers    1 | 0 when another owns it, or it is not known
local function operation(arguments)
  return owned(arguments[1]) and 1 or 0
end
