"""Batch work makes room for live work: by leaving some slots alone, and by giving way."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

from dragoman.live.ledger.memory.choice import indexes
from dragoman.live.ledger.memory.seats import Attempt, Seat
from dragoman.live.protocol import AttemptState, JobClass

_RUNS = (AttemptState.DISPATCHED, AttemptState.ACCEPTED, AttemptState.RUNNING)


def leaves_headroom(seats: Sequence[Seat | None], mask: int, headroom: float, now_ms: int) -> bool:
    """Whether a batch attempt more would leave live work its share of the candidates' slots."""
    slots = free = 0
    for index in indexes(mask):
        seat = seats[index]
        if seat is not None:
            slots += seat.slots
            if seat.takes(now_ms):
                free += seat.slots - len(seat.held)
    return free - 1 >= floor(headroom * slots)


def victim_of(
    seats: Sequence[Seat | None], mask: int, max_preemptions: int, now_ms: int
) -> Attempt | None:
    """The youngest batch attempt that may still give way: it loses the least work."""
    found: Attempt | None = None
    for index in indexes(mask):
        seat = seats[index]
        if seat is None or not seat.online or seat.drained or seat.alive_until_ms <= now_ms:
            continue
        if len(seat.held) > seat.slots:
            continue
        for attempt in seat.held.values():
            if (
                attempt.job_class is JobClass.BATCH
                and attempt.state in _RUNS
                and attempt.preemptions < max_preemptions
                and (found is None or attempt.dispatched_ms > found.dispatched_ms)
            ):
                found = attempt
    return found
