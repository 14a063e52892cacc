-- cell_version: moves when a seat's facts do, not with its slots.
-- answers    version number | cold
local function operation()
  if not version then return {'cold'} end
  return {'version', string.format('%.0f', version)}
end
