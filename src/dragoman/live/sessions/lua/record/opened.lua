-- opened: an utterance has its jobs; what was already delivered stays closed.
-- arguments  epoch, jobs {utterance, target, job_id}, next_chunk_seq, next_utterance_index
-- answers    1 | 0 when another owns the session, or it is not known
local function operation(arguments)
  local epoch, jobs, next_chunk, next_utterance = unpack(arguments)
  if not owned(epoch) then return 0 end
  if #jobs > 0 then open_all(jobs, read_ended()) end
  raise(NEXT_CHUNK, next_chunk)
  raise(NEXT_UTTERANCE, next_utterance)
  return 1
end
