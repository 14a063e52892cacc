-- delivered: utterances have their delivery numbers and are no longer open.
-- arguments  owner, the newest revision it has seen, entries {number, utterance, target, job_id,
--            reason}, how many numbers back deliveries are kept, how many that were dropped are
--            remembered, how many targets' last ends are kept
-- answers    the new revision | 0 when the record is not the owner's, or is older

local function drop_earliest(ended, most)
  local names = {}
  for name in pairs(ended) do names[#names + 1] = name end
  if #names <= most then return end
  table.sort(names, function(one, other)
    if ended[one] ~= ended[other] then return ended[one] < ended[other] end
    return one < other
  end)
  ended[names[1]] = nil
end

local function operation(arguments)
  local owner, seen, entries, keep_delivered, most_marks, most_targets = unpack(arguments)
  if not held(owner, seen) then return 0 end
  local ended = read_ended()
  for _, entry in ipairs(entries) do
    local seq, index, target = entry[1], entry[2], entry[3]
    redis.call('HDEL', RECORD, open_field(index, target))
    ended[target] = math.max(index, ended[target] or -1)
    drop_earliest(ended, most_targets)
    if seq >= number(NEXT_DELIVERY) then
      if seq > keep_delivered then drop(seq - keep_delivered, most_marks) end
      redis.call('HSET', RECORD, delivery_field(seq), packed_delivery(entry),
        NEXT_DELIVERY, seq + 1)
    end
  end
  hset(RECORD, ENDED, cmsgpack.pack(ended))
  return revised()
end
