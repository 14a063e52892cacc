-- acknowledged: everything up to a delivery number has arrived.
-- arguments  epoch, the number
-- answers    1 | 0 when another owns the session, or it is not known
local function operation(arguments)
  local epoch, upto = unpack(arguments)
  if not owned(epoch) then return 0 end
  let_go(math.min(upto, number(NEXT_DELIVERY) - 1))
  return 1
end
