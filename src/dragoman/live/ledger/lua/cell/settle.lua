-- settle: forget finished attempts that their jobs have taken.
-- arguments  attempt_id, ...
-- answers    done
local function operation(attempt_ids)
  for _, attempt_id in ipairs(attempt_ids) do
    if redis.call('HDEL', ENDED, attempt_id) == 1 then
      redis.call('HDEL', OUTPUTS, attempt_id)
      watch(attempt_id)
    end
  end
  if version then discard_if_empty() end
  return {'done'}
end
