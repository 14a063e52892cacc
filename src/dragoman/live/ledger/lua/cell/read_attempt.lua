-- read_attempt: an attempt as the cell knows it.
-- arguments  attempt_id
-- answers    attempt packed result | none
operations.read_attempt = function(arguments)
  local attempt_id = arguments[1]
  local ended = redis.call('HGET', ENDED, attempt_id)
  if ended then return {'attempt', ended, redis.call('HGET', OUTPUTS, attempt_id) or ''} end
  local held = redis.call('HGET', HELD, attempt_id)
  return held and {'attempt', held, ''} or {'none'}
end
