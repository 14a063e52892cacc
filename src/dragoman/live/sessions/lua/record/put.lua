-- put: write a whole record, unless it is there in the same or a newer revision, or another owner has it.
-- arguments  owner, revision, next_chunk_seq, next_utterance_index, next_delivery_seq,
--            open jobs {utterance, target, job_id}, deliveries {number, utterance, target, job_id,
--            reason}, dropped ones {number, utterance, target, reason},
--            ended {target, utterance, target, utterance, ...}, half sample as hex
-- blobs      what never changes
-- answers    the revision | 0 when it was not written
local function operation(arguments, start)
  local owner, revision, next_chunk, next_utterance, next_delivery, open_jobs, deliveries, dropped,
    ended_list, half_sample = unpack(arguments)
  local instance_id, connection_id, epoch = unpack(owner)
  local current = tonumber(redis.call('HGET', RECORD, EPOCH) or 0)
  if current > epoch then return 0 end
  if current == epoch and (not held(owner, 0) or number(REVISION) >= revision) then return 0 end
  redis.call('DEL', RECORD, DROPPED)
  written[RECORD] = true
  redis.call('HSET', RECORD, START, start, INSTANCE, instance_id, CONNECTION, connection_id,
    EPOCH, epoch, REVISION, revision, NEXT_CHUNK, next_chunk, NEXT_UTTERANCE, next_utterance,
    NEXT_DELIVERY, next_delivery,
    FIRST_KEPT, deliveries[1] and deliveries[1][1] or next_delivery)
  if half_sample ~= '' then hset(RECORD, HALF_SAMPLE, half_sample) end
  local ended = {}
  for position = 1, #ended_list, 2 do ended[ended_list[position]] = ended_list[position + 1] end
  hset(RECORD, ENDED, cmsgpack.pack(ended))
  open_all(open_jobs, ended)
  for _, entry in ipairs(deliveries) do
    hset(RECORD, delivery_field(entry[1]), packed_delivery(entry))
  end
  for _, entry in ipairs(dropped) do mark(entry) end
  return revision
end
