-- renew: go on owning the session.
-- arguments  owner, the newest revision it has seen
-- answers    1 | 0 when the record is not the owner's, or is older
local function operation(arguments)
  return held(arguments[1], arguments[2]) and 1 or 0
end
