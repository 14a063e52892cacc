-- read_cell: the whole board and who sits where.
-- answers    cell now_version board seats (field, value, ...) | cold
local function operation()
  if not version then return {'cold'} end
  return {'cell', string.format('%.0f', version), redis.call('GET', BOARD),
    redis.call('HGETALL', SEATS)}
end
