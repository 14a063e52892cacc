-- finish: the clean-up is done. What stays for a while tells the instance, should it wake up.
-- arguments  token, incarnation
-- answers    whether it was the cleaner's to finish (1 or 0)
local function operation(arguments)
  local token, incarnation = unpack(arguments)
  if fact('finished') and fact('incarnation') == incarnation then return {1} end
  if not is_cleaner(token, incarnation) then return {0} end
  redis.call('DEL', INBOX)
  hset(RECORD, 'finished', 1)
  return {1}
end
