"""What a client is told of a job that has ended."""

from __future__ import annotations

from dragoman.ids import JobId, SessionId
from dragoman.live.dispatch import AUTO_TARGET
from dragoman.live.ledger import JobRecord, JobSpec
from dragoman.live.protocol import (
    Error,
    ErrorInfo,
    MissingResult,
    Outcome,
    Scheduling,
    TranslationResult,
    same_language,
)
from dragoman.live.sessions.record import Delivered
from dragoman.live.sessions.unacknowledged import DROPPED, Ready

_ENVELOPE_BYTES = 512
"""What a result weighs beside its texts and audio."""


def scheduling_of(record: JobRecord) -> Scheduling:
    """Where the time of a job went."""
    times = record.attempts[-1].times if record.attempts else None
    if times is None:
        total = record.finished_at_ms - record.created_at_ms
        return Scheduling(total, 0, 0, total, 0)
    accepted = times.accepted_ms or times.dispatched_ms
    return Scheduling(
        queued_ms=times.dispatched_ms - record.created_at_ms,
        dispatch_ms=accepted - times.dispatched_ms,
        node_ms=times.finished_ms - accepted,
        total_ms=record.finished_at_ms - record.created_at_ms,
        attempts=record.attempts_used,
    )


def translation_result(
    session_id: SessionId, delivery_seq: int, index: int, target: str, record: JobRecord
) -> TranslationResult:
    """A finished job as its client gets it."""
    output = record.output
    node_id = record.attempts[-1].node_id if record.attempts else None
    return TranslationResult(
        delivery_seq=delivery_seq,
        session_id=session_id,
        utterance_index=index,
        tgt_lang=_language(record, target),
        job_id=record.job_id,
        request_id=record.spec.request_id,
        scheduling=scheduling_of(record),
        text_asr=output.text_asr if output else None,
        text_translated=output.text_translated if output else None,
        src_lang_detected=output.src_lang_detected if output else None,
        tts_audio=output.tts_audio if output else None,
        tts_format=output.tts_format if output else None,
        node_id=node_id,
        timings=output.timings if output else None,
        quality_score=output.quality_score if output else None,
        extra=output.extra if output else None,
    )


def _language(record: JobRecord, target: str) -> str:
    """What was translated into: of two ways, the node says which one it was."""
    if target != AUTO_TARGET:
        return target
    spec = record.spec
    said = record.output.tgt_lang if record.output else None
    if said is None:
        return _other_way(spec) or target
    # The client gets its own spelling back, not the node's.
    own = next((way for way in (spec.lang_a, spec.lang_b) if same_language(way, said)), None)
    return own or said


def _other_way(spec: JobSpec) -> str | None:
    """Of the two ways, the one a job goes by what it names as its source."""
    return spec.lang_a if same_language(spec.src_lang, spec.lang_b) else spec.lang_b


def missing_result(
    session_id: SessionId,
    delivery_seq: int,
    index: int,
    target: str,
    job_id: JobId | None,
    reason: str,
) -> MissingResult:
    """An utterance that has no result, in its place."""
    return MissingResult(
        delivery_seq=delivery_seq,
        session_id=session_id,
        utterance_index=index,
        reason=reason,
        tgt_lang=None if target == AUTO_TARGET else target,
        job_id=job_id,
    )


def failure(record: JobRecord) -> ErrorInfo | None:
    """Why a job brought nothing; None when it succeeded."""
    if record.outcome is Outcome.SUCCESS:
        return None
    return record.error or ErrorInfo("INTERNAL_ERROR", "The job failed without saying why.")


def error_message(
    info: ErrorInfo,
    index: int,
    target: str,
    request_id: str | None,
    job_id: JobId | None = None,
) -> Error:
    """Why an utterance has no result; what it names can be looked up."""
    details: dict[str, object] = dict(info.details or {})
    if job_id is not None:
        details.setdefault("job_id", job_id)
    after = details.get("retry_after_ms")
    return Error(
        code=info.code,
        message=info.message,
        retry_after_ms=after if isinstance(after, int) else None,
        details=details or None,
        utterance_index=index,
        tgt_lang=None if target == AUTO_TARGET else target,
        request_id=request_id,
    )


def sent_before(entry: Delivered, record: JobRecord | None) -> Ready[JobRecord]:
    """What an earlier owner of the session sent, with its payload where the ledger still has it."""
    info = failure(record) if record is not None else None
    if entry.reason is not None:
        kept = record if info is not None and info.code == entry.reason else None
        reason = None if kept is not None else entry.reason
    else:
        kept = record if record is not None and record.output is not None else None
        reason = None if kept is not None else DROPPED
    return Ready(entry.delivery_seq, entry.utterance_index, entry.target, kept, reason)


def weight(record: JobRecord) -> int:
    """About how many bytes a result takes while it waits for its acknowledgement."""
    output = record.output
    if output is None:
        return _ENVELOPE_BYTES
    texts = (output.text_asr or "", output.text_translated or "")
    return _ENVELOPE_BYTES + len(output.tts_audio or b"") + sum(map(len, texts))
