-- take_down: suspect a lapsed instance, or win the right to clean up after it.
-- arguments  token of the cleaner, suspicion_ms, cleaner_ttl_ms
-- answers    yours incarnation | not_yours | unknown incarnation ('' for no record at all)
local function operation(arguments)
  local token, suspicion_ms, cleaner_ttl_ms = unpack(arguments)
  local standing = fact('standing')
  if not standing or fact('finished') then return {'unknown', fact('incarnation') or ''} end
  if standing == 'up' then
    if is_alive() then return {'not_yours'} end
    local suspected_at_ms = fact('suspected_at_ms')
    if not suspected_at_ms then hset(RECORD, 'suspected_at_ms', now_ms) end
    if now_ms - (suspected_at_ms or now_ms) < suspicion_ms then return {'not_yours'} end
  elseif standing == 'down' and fact('cleaner') ~= token
    and tonumber(fact('cleaner_until_ms')) > now_ms then
    return {'not_yours'}
  end
  hset(RECORD, 'standing', 'down')
  hset(RECORD, 'cleaner', token)
  hset(RECORD, 'cleaner_until_ms', now_ms + cleaner_ttl_ms)
  return {'yours', fact('incarnation')}
end
