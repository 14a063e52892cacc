-- peek: whether a reserve would find a slot, without taking it.
-- arguments  as for reserve
-- blobs      candidates: one byte, the seat's index, for each
-- answers    room | full | headroom | cold
-- A cell that knows the attempt has room for it: asking there tells what it got.
local function operation(ask, candidates)
  if not version then return {'cold'} end
  if find(ask[ASK_ATTEMPT_ID]) then return {'room'} end
  local refused = refusal(ask, candidates)
  if refused then return {refused} end
  return {#grantable_among(candidates) > 0 and 'room' or 'full'}
end
