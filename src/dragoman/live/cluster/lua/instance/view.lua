-- view: the instance as others see it.
-- answers    alive card ('' for an instance without a record) inbox_length pending
local function operation()
  local pending = redis.pcall('XPENDING', INBOX, GROUP)
  return {
    is_alive() and 1 or 0, fact('card') or '', redis.call('XLEN', INBOX),
    pending.err and 0 or pending[1],
  }
end
