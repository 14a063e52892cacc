"""The instances that wait for a slot of one cell, and which of them a free slot wakes."""

from __future__ import annotations

import msgspec

from dragoman.ids import InstanceId
from dragoman.live.protocol import JobClass
from dragoman.live.shared.interface import WAITING_MS
from dragoman.live.shared.records import SlotAsk

Waiter = tuple[InstanceId, str, JobClass]
"""An instance, the pair that its jobs are of, and their class."""


class _Note(msgspec.Struct):
    """Which seats would do, since when the instance waits, and how long that counts."""

    candidates: int
    since_ms: int
    until_ms: int


class Waiting:
    """Notes of instances that found no slot.

    A cell knows seats, not languages: that a seat serves a pair is what the candidates say that
    the instance asked for. A seat that joined later is in no note; instances hear of it with the
    news of the fleet, and ask again.
    """

    def __init__(self) -> None:
        self._notes: dict[Waiter, _Note] = {}

    def __len__(self) -> int:
        return len(self._notes)

    def note(self, ask: SlotAsk, now_ms: int) -> None:
        """The instance found no slot; asking again keeps its place."""
        if not ask.waits_for:
            return
        self.expire(now_ms)
        waiter = (ask.instance_id, ask.waits_for, ask.job_class)
        known = self._notes.get(waiter)
        since_ms = known.since_ms if known is not None else now_ms
        self._notes[waiter] = _Note(ask.candidates, since_ms, now_ms + WAITING_MS)

    def wake(self, index: int, now_ms: int) -> InstanceId | None:
        """The instance that gets to try for a free slot of the seat; it waits no more."""
        self.expire(now_ms)
        fit = [waiter for waiter, note in self._notes.items() if note.candidates >> index & 1]
        if not fit:
            return None
        first = min(fit, key=lambda waiter: (waiter[2] is JobClass.BATCH, self._since(waiter)))
        del self._notes[first]
        return first[0]

    def expire(self, now_ms: int) -> None:
        over = [waiter for waiter, note in self._notes.items() if note.until_ms <= now_ms]
        for waiter in over:
            del self._notes[waiter]

    def _since(self, waiter: Waiter) -> int:
        return self._notes[waiter].since_ms
