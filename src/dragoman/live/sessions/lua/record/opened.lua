-- opened: an utterance has its jobs; what was already delivered stays closed.
-- arguments  owner, the newest revision it has seen, jobs {utterance, target, job_id},
--            next_chunk_seq, next_utterance_index
-- answers    the new revision | 0 when the record is not the owner's, or is older
local function operation(arguments)
  local owner, seen, jobs, next_chunk, next_utterance = unpack(arguments)
  if not held(owner, seen) then return 0 end
  if #jobs > 0 then open_all(jobs, read_ended()) end
  raise(NEXT_CHUNK, next_chunk)
  raise(NEXT_UTTERANCE, next_utterance)
  return revised()
end
