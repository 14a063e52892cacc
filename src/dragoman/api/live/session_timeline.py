"""Where the time of a session's utterances went, as the instances that served it remember it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from dragoman.auth import Principal, may_see
from dragoman.ids import InstanceId, JobId, NodeId, SessionId
from dragoman.live.protocol import Timings, utc_time
from dragoman.live.sessions import RecentDelivery


class TimelineEntry(msgspec.Struct, frozen=True):
    """An utterance for one target: when it was done, and how long each part of that took."""

    delivery_seq: int
    utterance_index: int
    tgt_lang: str | None
    """None: which of two languages it would have been is not known."""
    job_id: JobId | None
    node_id: NodeId | None
    instance_id: InstanceId
    """The instance that delivered it."""
    reason: str | None
    """Why it has no result; None: it has one."""
    ended_at: str
    queued_ms: float | None
    """Waiting for a slot."""
    dispatch_ms: float | None
    """From the decision to the node's acknowledgement."""
    node_ms: float | None
    """From the acknowledgement to the result."""
    total_ms: float | None
    attempts: int | None
    speech_end_to_result_ms: float | None
    timings: Timings | None
    """How long each stage took, as the node measured it."""


class SessionTimeline(msgspec.Struct, frozen=True):
    """The last utterances of a session, the oldest first."""

    session_id: SessionId
    items: Sequence[TimelineEntry]
    omitted: int = 0
    """Earlier ones that are remembered and were not asked for."""
    unreachable: tuple[InstanceId, ...] = ()
    """Instances that are present and did not answer: what they delivered is not among these."""


def own_entries(
    deliveries: Iterable[RecentDelivery], instance_id: InstanceId, reader: Principal
) -> list[TimelineEntry]:
    """What this instance delivered, as far as the reader may see it."""
    return [
        _entry(delivery, instance_id) for delivery in deliveries if may_see(reader, delivery.tenant)
    ]


def timeline_of(
    session_id: SessionId,
    entries: Iterable[TimelineEntry],
    last: int,
    omitted: int = 0,
    unreachable: tuple[InstanceId, ...] = (),
) -> SessionTimeline:
    """One timeline of what several instances delivered, each delivery once."""
    by_seq = {entry.delivery_seq: entry for entry in entries}
    ordered = [by_seq[seq] for seq in sorted(by_seq)]
    left_out = max(0, len(ordered) - last)
    return SessionTimeline(session_id, ordered[left_out:], omitted + left_out, unreachable)


def _entry(delivery: RecentDelivery, instance_id: InstanceId) -> TimelineEntry:
    scheduling = delivery.scheduling
    return TimelineEntry(
        delivery_seq=delivery.delivery_seq,
        utterance_index=delivery.utterance_index,
        tgt_lang=delivery.tgt_lang,
        job_id=delivery.job_id,
        node_id=delivery.node_id,
        instance_id=instance_id,
        reason=delivery.reason,
        ended_at=utc_time(delivery.ended_ms),
        queued_ms=scheduling.queued_ms if scheduling else None,
        dispatch_ms=scheduling.dispatch_ms if scheduling else None,
        node_ms=scheduling.node_ms if scheduling else None,
        total_ms=scheduling.total_ms if scheduling else None,
        attempts=scheduling.attempts if scheduling else None,
        speech_end_to_result_ms=scheduling.speech_end_to_result_ms if scheduling else None,
        timings=delivery.timings,
    )
