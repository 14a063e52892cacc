"""What a client is told of a job that has ended."""

from __future__ import annotations

from dragoman.ids import JobId, SessionId
from dragoman.live.dispatch import AUTO_TARGET, Job
from dragoman.live.protocol import (
    Error,
    ErrorInfo,
    JobResult,
    MissingResult,
    Scheduling,
    TranslationResult,
    same_language,
)


def translation_result(
    session_id: SessionId,
    seq: int,
    index: int,
    lane: str,
    job: Job,
    output: JobResult,
    now: float | None = None,
) -> TranslationResult:
    """A finished job as its client gets it; now is when, where that matters to a speaker."""
    created, dispatched, finished = job.created_ms, job.dispatched_ms, job.finished_ms
    accepted = job.accepted_ms or dispatched
    scheduling = Scheduling(
        dispatched - created,
        accepted - dispatched,
        finished - accepted,
        finished - created,
        job.used,
    )
    if now is not None:
        scheduling = _with_speech(scheduling, job, output, now)
    # In the order of the fields, without their names: msgspec takes ten times as long with them.
    return TranslationResult(
        seq,
        session_id,
        index,
        lane if lane != AUTO_TARGET else way_taken(job, output),
        job.job_id,
        job.spec.request_id,
        scheduling,
        output.text_asr,
        output.text_translated,
        output.src_lang_detected,
        output.tts_audio,
        output.tts_format,
        job.seat.node_id if job.seat is not None else None,
        output.timings,
        output.quality_score,
        output.extra,
    )


def _with_speech(scheduling: Scheduling, job: Job, output: JobResult, now: float) -> Scheduling:
    """The same with how long after the end of speech came the result, and each of its parts."""
    ended = job.speech_ended
    if ended is None:
        return scheduling
    whole_ms = round((now - ended) * 1000, 3)
    text_ms = whole_ms if job.text_known is None else round((job.text_known - ended) * 1000, 3)
    return Scheduling(
        scheduling.queued_ms,
        scheduling.dispatch_ms,
        scheduling.node_ms,
        scheduling.total_ms,
        scheduling.attempts,
        whole_ms,
        text_ms if output.text_asr else None,
        whole_ms if output.text_translated else None,
        whole_ms if output.tts_audio else None,
    )


def missing_result(
    session_id: SessionId, seq: int, index: int, lane: str, job_id: JobId | None, reason: str
) -> MissingResult:
    """An utterance that has no result, in its place."""
    return MissingResult(
        delivery_seq=seq,
        session_id=session_id,
        utterance_index=index,
        reason=reason,
        tgt_lang=None if lane == AUTO_TARGET else lane,
        job_id=job_id,
    )


def failure(job: Job) -> ErrorInfo:
    """Why a job that did not succeed brought nothing."""
    return job.error or ErrorInfo("INTERNAL_ERROR", "The job failed without saying why.")


def error_message(
    info: ErrorInfo, index: int, lane: str, request_id: str | None, job_id: JobId | None
) -> Error:
    """Why an utterance has no result; what it names can be looked up."""
    details: dict[str, object] = dict(info.details or {})
    if job_id:
        details.setdefault("job_id", job_id)
    after = details.get("retry_after_ms")
    return Error(
        code=info.code,
        message=info.message,
        retry_after_ms=after if isinstance(after, int) else None,
        details=details or None,
        utterance_index=index,
        tgt_lang=None if lane == AUTO_TARGET else lane,
        request_id=request_id,
    )


def way_taken(job: Job, output: JobResult) -> str:
    """Of two ways, the one that was gone, as the session writes it; the node says which one."""
    spec = job.spec
    ways = (spec.lang_a, spec.lang_b)
    said = next((way for way in ways if way and same_language(way, output.tgt_lang)), None)
    # A node that names a third language is as one that names none: no listener asked for it.
    other = spec.lang_a if same_language(spec.src_lang, spec.lang_b) else spec.lang_b
    return said or other or AUTO_TARGET
