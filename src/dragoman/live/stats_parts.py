"""What each instance adds to the stats of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

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
    for part in parts:
        spoken.update(part.as_source)
        heard.update(part.as_target)
    return StatsPart(
        sessions=sum(part.sessions for part in parts),
        as_source=spoken,
        as_target=heard,
        jobs_created=sum(part.jobs_created for part in parts),
        jobs_running=sum(part.jobs_running for part in parts),
        jobs_success=sum(part.jobs_success for part in parts),
        jobs_failed=sum(part.jobs_failed for part in parts),
    )
