-- read_attempt: an attempt as the cell knows it.
-- arguments  attempt_id
-- answers    attempt packed result | none
local function operation(arguments)
  local packed, output = stored(arguments[1])
  return packed and {'attempt', packed, output} or {'none'}
end
