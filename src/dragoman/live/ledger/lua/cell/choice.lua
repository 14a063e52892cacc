-- Choosing one seat among the candidates that have a free slot. `candidates` is a string with one
-- byte, the seat's index, for each; chance comes in as numbers from 0 to 1.

local function grantable(seat)
  return seat and seat.free > 0 and seat.alive_until_ms > now_ms
end

local function load_of(seat) return seat.held / seat.slots end

-- How long one more job would take there: its pace, and how busy it is. A node not
-- measured yet counts as instant, so that it gets measured.
local function expected_ms(seat) return seat.mean_ms * (1 + load_of(seat)) end

-- A few draws that look at one seat each; they settle a cell with room without reading it all.
-- The first chance is left for the choice that knows all seats.
local function draw_blind(candidates, chances)
  for draw = 2, #chances do
    local position = math.floor(chances[draw] * #candidates) + 1
    local seat = read_seat(candidates:byte(position))
    if grantable(seat) then return seat end
  end
end

local function grantable_among(candidates)
  local board = redis.call('GET', BOARD)
  local found = {}
  for position = 1, #candidates do
    local seat = seat_of_board(board, candidates:byte(position))
    if grantable(seat) then found[#found + 1] = seat end
  end
  return found
end

local function draw(seats, chance)
  return seats[math.floor(chance * #seats) + 1]
end

-- The lowest cost; among equals each has the same chance, so that jobs do not herd.
local function cheapest(seats, cost, chance)
  local lowest, equals = math.huge, {}
  for _, seat in ipairs(seats) do
    local value = cost(seat)
    if value < lowest then lowest, equals = value, {} end
    if value == lowest then equals[#equals + 1] = seat end
  end
  return draw(equals, chance)
end

local choices = {
  random = function(seats, chances) return draw(seats, chances[1]) end,
  power_of_two = function(seats, chances)
    local first = table.remove(seats, math.floor(chances[1] * #seats) + 1)
    local second = draw(seats, chances[2])
    return second and load_of(second) < load_of(first) and second or first
  end,
  least_loaded = function(seats, chances) return cheapest(seats, load_of, chances[1]) end,
  latency_weighted = function(seats, chances) return cheapest(seats, expected_ms, chances[1]) end,
}

local function choose(candidates, strategy, chances)
  if strategy == 'random' then
    local seat = draw_blind(candidates, chances)
    if seat then return seat end
  end
  local seats = grantable_among(candidates)
  if #seats == 0 then return nil end
  return choices[strategy](seats, chances)
end

-- Whether live work keeps enough free slots over the candidates when one more is taken.
local function leaves_headroom(candidates, headroom)
  local board = redis.call('GET', BOARD)
  local slots, free_slots = 0, 0
  for position = 1, #candidates do
    local seat = seat_of_board(board, candidates:byte(position))
    if seat then
      slots = slots + seat.slots
      if grantable(seat) then free_slots = free_slots + seat.free end
    end
  end
  return free_slots - 1 >= math.floor(headroom * slots), free_slots
end
