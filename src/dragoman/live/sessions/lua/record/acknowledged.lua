-- acknowledged: everything up to a delivery number has arrived.
-- arguments  owner, the newest revision it has seen, the number
-- answers    the new revision | 0 when the record is not the owner's, or is older
local function operation(arguments)
  local owner, seen, upto = unpack(arguments)
  if not held(owner, seen) then return 0 end
  let_go(math.min(upto, number(NEXT_DELIVERY) - 1))
  forget_marks(upto)
  return revised()
end
