-- join: begin a new life of the instance, whatever became of the one before.
-- arguments  incarnation, ttl_ms
-- blobs      card
-- answers    whether another process was present (1 or 0), when this life joined
local function operation(arguments, card)
  local incarnation, ttl_ms = unpack(arguments)
  local took_over = is_alive() and fact('incarnation') ~= incarnation
  redis.call('DEL', RECORD)
  appear(incarnation, now_ms, ttl_ms, card)
  open_inbox()
  -- Readers of former lives go, except those with notes still to be handed out again.
  for _, reader in ipairs(redis.call('XINFO', 'CONSUMERS', INBOX, GROUP)) do
    local name, pending = reader[2], reader[4]
    if pending == 0 and name ~= incarnation then
      redis.call('XGROUP', 'DELCONSUMER', INBOX, GROUP, name)
    end
  end
  return {took_over and 1 or 0, now_ms}
end
