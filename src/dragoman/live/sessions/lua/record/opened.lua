-- opened: an utterance has its jobs; what was already delivered stays closed.
-- arguments  owner, the newest revision it has seen, jobs {utterance, target, job_id},
--            next_chunk_seq, next_utterance_index, half sample as hex
-- answers    the new revision | 0 when the record is not the owner's, or is older
local function operation(arguments)
  local owner, seen, jobs, next_chunk, next_utterance, half_sample = unpack(arguments)
  if not held(owner, seen) then return 0 end
  if #jobs > 0 then open_all(jobs, read_ended()) end
  if raise(NEXT_CHUNK, next_chunk) then
    if half_sample ~= '' then
      hset(RECORD, HALF_SAMPLE, half_sample)
    else
      redis.call('HDEL', RECORD, HALF_SAMPLE)
    end
  end
  raise(NEXT_UTTERANCE, next_utterance)
  return revised()
end
