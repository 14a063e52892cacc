-- What every function begins with: the time, and short names for what is called often.
-- The first argument of every function begins with '<d', the time in ms to go by instead of the
-- server's, which is 0 but for tests. Where several are run together, the third is the time that they
-- go by.
local prepare
local call, pack, unpk, sub, byte, char, find, floor, max, min

local function clock(terms, shared_now)
  if not call then
    -- A library may not touch these while it is loaded.
    call, pack, unpk = redis.call, struct.pack, struct.unpack
    sub, byte, char, find = string.sub, string.byte, string.char, string.find
    floor, max, min = math.floor, math.max, math.min
    if prepare then prepare() end
  end
  local given = unpk('<d', terms)
  if given > 0 then return given end
  if shared_now then return shared_now end
  local time = call('TIME')
  return time[1] * 1000 + floor(time[2] / 1000)
end
