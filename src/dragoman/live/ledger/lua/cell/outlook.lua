-- outlook: slots, slots held, and slots that come free per millisecond, over the candidates.
-- blobs      candidates: one byte, the seat's index, for each
-- answers    outlook slots held rate | cold
local function operation(_, candidates)
  if not version then return {'cold'} end
  local board = redis.call('GET', BOARD)
  local slots, held, rate = 0, 0, 0
  for position = 1, #candidates do
    local seat = seat_of_board(board, candidates:byte(position))
    if seat then
      slots, held = slots + seat.slots, held + seat.held
      if seat.mean_ms > 0 then rate = rate + seat.held / seat.mean_ms end
    end
  end
  return {'outlook', slots, held, string.format('%.17g', rate)}
end
