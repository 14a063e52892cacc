-- cell_size: how many seats, held attempts and ended attempts the cell keeps.
-- answers    seats, held, ended
local function operation()
  -- A seat has three fields: its node, its owner, its facts.
  return {redis.call('HLEN', SEATS) / 3, redis.call('HLEN', HELD), redis.call('HLEN', ENDED)}
end
