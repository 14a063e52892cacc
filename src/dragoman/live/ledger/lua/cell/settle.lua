-- settle: forget finished attempts that their jobs have taken.
-- arguments  attempt_id, ...
-- answers    done
local function operation(attempt_ids)
  settle(attempt_ids)
  if version then discard_if_empty() end
  return {'done'}
end
