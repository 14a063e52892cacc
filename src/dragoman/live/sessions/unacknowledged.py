"""What was sent to a client and may have to be sent again."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

import msgspec

from dragoman.errors import RateLimited

P = TypeVar("P")

DROPPED = RateLimited.code
"""The reason given for a result that went out, was not acknowledged, and could not be kept."""

MARKS_PER_MESSAGE = 16
"""For each message that is kept, so many dropped ones are remembered by their number."""


class Ready(msgspec.Struct, Generic[P], frozen=True):
    """The end of one utterance for one target, as it goes to the client: a result, or a reason."""

    delivery_seq: int
    index: int
    target: str
    payload: P | None = None
    reason: str | None = None


class Unacknowledged(Generic[P]):
    """Deliveries in the order of their numbers, until the client says that it has them.

    Bounded in messages and in bytes. The oldest go first, and leave a mark behind, so that their
    numbers can still be explained; marks are bounded too.
    """

    def __init__(self, keep_messages: int, keep_bytes: int) -> None:
        self.size_bytes = 0
        self._keep_messages = keep_messages
        self._keep_bytes = keep_bytes
        self._kept: deque[tuple[Ready[P], int]] = deque()
        self._marks: deque[Ready[P]] = deque(maxlen=keep_messages * MARKS_PER_MESSAGE)

    def keep(self, ready: Ready[P], size_bytes: int) -> None:
        self._kept.append((ready, size_bytes))
        self.size_bytes += size_bytes
        while len(self._kept) > self._keep_messages or self.size_bytes > self._keep_bytes:
            oldest = self._take_oldest()
            reason = oldest.reason or DROPPED
            self._marks.append(msgspec.structs.replace(oldest, payload=None, reason=reason))

    def acknowledge(self, upto: int) -> list[Ready[P]]:
        """Let go of everything up to a number; what was let go."""
        released: list[Ready[P]] = []
        while self._marks and self._marks[0].delivery_seq <= upto:
            released.append(self._marks.popleft())
        while self._kept and self._kept[0][0].delivery_seq <= upto:
            released.append(self._take_oldest())
        return released

    def after(self, delivery_seq: int) -> list[Ready[P]]:
        """Everything with a higher number, in order; a mark stands for what was dropped."""
        everything = [*self._marks, *(ready for ready, _ in self._kept)]
        return [ready for ready in everything if ready.delivery_seq > delivery_seq]

    def _take_oldest(self) -> Ready[P]:
        ready, size_bytes = self._kept.popleft()
        self.size_bytes -= size_bytes
        return ready
