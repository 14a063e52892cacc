"""What each instance adds to the stats of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import zip_longest

import msgspec


class StatsPart(msgspec.Struct, frozen=True, array_like=True):
    """What only the instance itself can count; every instance sees the nodes and their slots."""

    sessions: int = 0
    as_source: dict[str, int] = {}
    """In how many open sessions each language is spoken."""
    as_target: dict[str, int] = {}
    """In how many open sessions each language is heard."""
    jobs_created: int = 0
    jobs_running: int = 0
    jobs_success: int = 0
    jobs_failed: int = 0
    jobs_waiting: int = 0
    refused: dict[str, int] = {}
    """Jobs refused since the start, by error code."""
    refused_pairs: dict[str, int] = {}
    """The same by language pair."""
    job_durations: tuple[int, ...] = ()
    """Jobs by how long they took: the counts of the buckets of that metric."""
    dispatch_latencies: tuple[int, ...] = ()
    """Jobs by how long it took to find a node."""
    session_changes: int = 0
    """How often a session came, went, lost its client or got it back."""
    refused_reasons: dict[str, int] = {}
    """Jobs refused since the start, by each reason for which nodes were left out."""


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(StatsPart)


def write_part(part: StatsPart) -> bytes:
    return _encode(part)


def read_part(written: bytes) -> StatsPart | None:
    """None for what this version of Dragoman cannot read."""
    try:
        return _decoder.decode(written)
    except msgspec.DecodeError:
        return None


def sum_parts(parts: Iterable[StatsPart]) -> StatsPart:
    """All instances in numbers."""
    parts = tuple(parts)
    spoken: Counter[str] = Counter()
    heard: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    refused_pairs: Counter[str] = Counter()
    refused_reasons: Counter[str] = Counter()
    for part in parts:
        spoken.update(part.as_source)
        heard.update(part.as_target)
        refused.update(part.refused)
        refused_pairs.update(part.refused_pairs)
        refused_reasons.update(part.refused_reasons)
    return StatsPart(
        sessions=sum(part.sessions for part in parts),
        as_source=spoken,
        as_target=heard,
        jobs_created=sum(part.jobs_created for part in parts),
        jobs_running=sum(part.jobs_running for part in parts),
        jobs_success=sum(part.jobs_success for part in parts),
        jobs_failed=sum(part.jobs_failed for part in parts),
        jobs_waiting=sum(part.jobs_waiting for part in parts),
        refused=refused,
        refused_pairs=refused_pairs,
        job_durations=_sum_buckets(part.job_durations for part in parts),
        dispatch_latencies=_sum_buckets(part.dispatch_latencies for part in parts),
        session_changes=sum(part.session_changes for part in parts),
        refused_reasons=refused_reasons,
    )


def _sum_buckets(several: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """Bucket by bucket; an instance of another version may have fewer of them, or none."""
    return tuple(sum(counts) for counts in zip_longest(*several, fillvalue=0))
