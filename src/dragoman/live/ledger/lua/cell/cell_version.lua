-- cell_version: moves when a seat's facts do, not with its slots.
-- answers    version number | cold
operations.cell_version = function()
  if not version then return {'cold'} end
  return {'version', string.format('%.0f', version)}
end
