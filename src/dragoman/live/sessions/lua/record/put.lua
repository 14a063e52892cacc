-- put: write a whole record, unless a newer owner, or another one of the same epoch, has it.
-- arguments  instance_id, connection_id, epoch, next_chunk_seq, next_utterance_index,
--            next_delivery_seq, open jobs {utterance, target, job_id}, deliveries {number, utterance,
--            target, job_id, reason}, ended {target, utterance, target, utterance, ...}
-- blobs      what never changes
-- answers    1 when the asker owns the record, 0 when another does
local function operation(arguments, start)
  local instance_id, connection_id, epoch, next_chunk, next_utterance, next_delivery, open_jobs,
    deliveries, ended_list = unpack(arguments)
  local current = redis.call('HMGET', RECORD, EPOCH, INSTANCE, CONNECTION)
  if current[1] and tonumber(current[1]) >= epoch then
    local same = tonumber(current[1]) == epoch
      and current[2] == instance_id and current[3] == connection_id
    return same and 1 or 0
  end
  redis.call('DEL', RECORD)
  written[RECORD] = true
  redis.call('HSET', RECORD, START, start, INSTANCE, instance_id, CONNECTION, connection_id,
    EPOCH, epoch, NEXT_CHUNK, next_chunk, NEXT_UTTERANCE, next_utterance,
    NEXT_DELIVERY, next_delivery,
    FIRST_KEPT, deliveries[1] and deliveries[1][1] or next_delivery)
  local ended = {}
  for position = 1, #ended_list, 2 do ended[ended_list[position]] = ended_list[position + 1] end
  hset(RECORD, ENDED, cmsgpack.pack(ended))
  open_all(open_jobs, ended)
  for _, entry in ipairs(deliveries) do
    hset(RECORD, delivery_field(entry[1]), packed_delivery(entry))
  end
  return 1
end
