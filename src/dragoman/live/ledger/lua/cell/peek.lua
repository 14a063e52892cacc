-- peek: whether a reserve would find a slot, without taking it.
-- arguments  as for reserve
-- blobs      candidates: one byte, the seat's index, for each
-- answers    room | full | headroom | cold
operations.peek = function(ask, candidates)
  if not version then return {'cold'} end
  local refused = refusal(ask, candidates)
  if refused then return {refused} end
  return {#grantable_among(candidates) > 0 and 'room' or 'full'}
end
