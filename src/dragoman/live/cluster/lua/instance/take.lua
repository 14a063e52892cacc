-- take: strike out notes that are done, then hand out those left lying and new ones.
-- arguments  incarnation, count, reclaim_idle_ms, max_deliveries, done, in_hand
-- answers    handed inbox_length {entry_id deliveries note ...} {the same, of those handed out too
--            often} now_ms | superseded | taken_down
local function operation(arguments)
  local incarnation, count, reclaim_idle_ms, max_deliveries, done, in_hand = unpack(arguments)
  local no = refused(incarnation)
  if no then return no end
  open_inbox()
  if #done > 0 then
    redis.call('XACK', INBOX, GROUP, unpack(done))
    redis.call('XDEL', INBOX, unpack(done))
  end
  if #in_hand > 0 then
    -- Claiming by id alone counts no delivery, and the time since the last one begins anew.
    table.insert(in_hand, 'JUSTID')
    redis.call('XCLAIM', INBOX, GROUP, incarnation, 0, unpack(in_hand))
  end
  local handed, spent = {}, {}
  local room = count
  local idle = redis.call('XPENDING', INBOX, GROUP, 'IDLE', reclaim_idle_ms, '-', '+', count)
  for _, left in ipairs(idle) do
    local entry_id, deliveries = left[1], left[4] + 1
    local entry = redis.call('XCLAIM', INBOX, GROUP, incarnation, reclaim_idle_ms, entry_id)[1]
    if entry then
      local pile = deliveries > max_deliveries and spent or handed
      table.insert(pile, entry_id)
      table.insert(pile, deliveries)
      table.insert(pile, entry[2][2])
      room = room - 1
    end
  end
  local fresh = room > 0 and redis.call(
    'XREADGROUP', 'GROUP', GROUP, incarnation, 'COUNT', room, 'STREAMS', INBOX, '>')
  for _, entry in ipairs(fresh and fresh[1][2] or {}) do
    table.insert(handed, entry[1])
    table.insert(handed, 1)
    table.insert(handed, entry[2][2])
  end
  return {'handed', redis.call('XLEN', INBOX), handed, spent, now_ms}
end
