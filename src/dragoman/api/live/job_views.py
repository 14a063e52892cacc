"""A job as its owner sees it, from what the ledger keeps of it."""

from __future__ import annotations

import asyncio

import msgspec

from dragoman.ids import AttemptId
from dragoman.live.ledger import AttemptRecord, JobRecord, PastAttempt, Seats, Times
from dragoman.live.protocol import (
    AttemptState,
    AttemptTimes,
    AttemptView,
    JobOutput,
    JobResult,
    JobState,
    JobView,
    Outcome,
    ResultAudio,
    Scheduling,
    utc_time,
)

Known = dict[AttemptId, AttemptRecord]
"""Attempts that their cells still know, so that they hold a slot or did a moment ago."""


async def view_job(
    ledger: Seats, record: JobRecord, audio: ResultAudio = ResultAudio.INCLUDE
) -> JobView:
    """The job with the present state of its attempts, with or without the sound of its result."""
    view = job_view(record, await _known_attempts(ledger, record))
    if audio is ResultAudio.INCLUDE or view.result is None:
        return view
    silent = msgspec.structs.replace(view.result, tts_audio=None)
    return msgspec.structs.replace(view, result=silent)


def job_view(record: JobRecord, known: Known) -> JobView:
    """The job as it was when both were read."""
    attempts = [attempt for attempt in record.attempts if attempt.bound]
    spec = record.spec
    return JobView(
        job_id=record.job_id,
        request_id=spec.request_id,
        state=_state(record, known),
        job_class=spec.job_class,
        src_lang=spec.src_lang,
        tgt_lang=spec.tgt_lang,
        services=dict(spec.services),
        attempts=tuple(
            _attempt_view(number, attempt, known.get(attempt.attempt_id), record.state)
            for number, attempt in enumerate(attempts, start=1)
        ),
        outcome=record.outcome,
        error=record.error,
        node_id=attempts[-1].node_id if attempts else None,
        result=_output(record.output) if record.output else None,
        scheduling=_scheduling(record),
        preemptions=record.preemptions,
    )


async def _known_attempts(ledger: Seats, record: JobRecord) -> Known:
    """Reads only attempts that may still be out: one that succeeded is not."""
    asked = [
        attempt
        for attempt in record.attempts
        if attempt.bound and attempt.outcome is not Outcome.SUCCESS
    ]
    found = await asyncio.gather(
        *(ledger.read_attempt(attempt.cell, attempt.attempt_id) for attempt in asked)
    )
    return {attempt.attempt_id: attempt for attempt in found if attempt is not None}


def _state(record: JobRecord, known: Known) -> JobState:
    """The current attempt's state; one that is being won back or taken still shows its last."""
    attempt = known.get(record.current) if record.current is not None else None
    if attempt is None:
        return record.state
    if attempt.times.running_ms:
        return JobState.RUNNING
    return JobState.ACCEPTED if attempt.times.accepted_ms else JobState.DISPATCHED


def _attempt_view(
    number: int, past: PastAttempt, known: AttemptRecord | None, job_state: JobState
) -> AttemptView:
    if known is not None:
        state = known.state
    elif past.outcome is None:
        state = AttemptState.DISPATCHED
    else:
        released = job_state is JobState.RELEASED
        state = AttemptState.RELEASED if released else AttemptState.FINISHED
    times = known.times if known is not None and past.outcome is None else past.times
    return AttemptView(
        attempt=number,
        attempt_id=past.attempt_id,
        node_id=past.node_id,
        state=state,
        at=_times_view(times),
        outcome=past.outcome,
        error=past.error,
    )


def _scheduling(record: JobRecord) -> Scheduling | None:
    """Where the time of a job that succeeded went, counted as for a session's utterance."""
    done = [attempt for attempt in record.attempts if attempt.outcome is Outcome.SUCCESS]
    if record.outcome is not Outcome.SUCCESS or not done:
        return None
    times, created_ms = done[-1].times, record.created_at_ms
    accepted_ms = times.accepted_ms or times.dispatched_ms
    return Scheduling(
        queued_ms=times.dispatched_ms - created_ms,
        dispatch_ms=accepted_ms - times.dispatched_ms,
        node_ms=times.finished_ms - accepted_ms,
        total_ms=times.finished_ms - created_ms,
        attempts=record.attempts_used,
    )


def _times_view(times: Times) -> AttemptTimes:
    return AttemptTimes(
        dispatched=_moment(times.dispatched_ms),
        accepted=_moment(times.accepted_ms),
        running=_moment(times.running_ms),
        finished=_moment(times.finished_ms),
    )


def _moment(at_ms: int) -> str | None:
    return utc_time(at_ms) if at_ms else None


def _output(result: JobResult) -> JobOutput:
    return JobOutput(
        text_asr=result.text_asr,
        text_translated=result.text_translated,
        src_lang_detected=result.src_lang_detected,
        tgt_lang=result.tgt_lang,
        tts_audio=result.tts_audio,
        tts_format=result.tts_format,
        timings=result.timings,
        usage=result.usage,
        quality_score=result.quality_score,
        extra=result.extra,
    )
