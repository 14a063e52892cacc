"""When a client sends its heartbeat, and what it learns from the answer not coming."""

from __future__ import annotations

import asyncio

from dragoman.clock import Clock
from dragoman.sdk.session.dialogue import Dialogue

_TICK_SECONDS = 0.25
"""Also the longest that a result stays unacknowledged."""
_MOST_UNACKNOWLEDGED = 16
_FORGET_SECONDS = 1.0
"""How often one asks what may be forgotten, while much is kept."""
_ANSWER_SECONDS = 15.0


class SessionHeartbeat:
    """The heartbeat of one connection: at the interval, and soon after results have come.

    Each heartbeat tells the scheduler what it may forget, and the answer tells the client.
    """

    def __init__(self, dialogue: Dialogue, clock: Clock, keep_bytes: int) -> None:
        self.is_due = False
        self.is_lost = False
        """A heartbeat was not answered: the scheduler is gone."""
        self._dialogue = dialogue
        self._clock = clock
        self._keep_bytes = keep_bytes
        self._beaten_at = clock.monotonic()
        self._waiting_since: float | None = None

    async def run(self, interval_seconds: float) -> None:
        """Say when a heartbeat is due; returns when one was not answered."""
        while not self.is_lost:
            await asyncio.sleep(_TICK_SECONDS)
            now = self._clock.monotonic()
            if self._wanted(now - self._beaten_at, interval_seconds):
                self._now_due()
            waiting = self._waiting_since
            self.is_lost = waiting is not None and now - waiting >= _ANSWER_SECONDS

    def beaten(self) -> None:
        """A heartbeat goes out now, and acknowledges all that has come."""
        self.is_due = False
        self._dialogue.results.unacknowledged = 0
        self._beaten_at = self._clock.monotonic()

    def answered(self) -> None:
        self._waiting_since = None

    def has_news(self) -> None:
        """A result has come; after many, the scheduler need not wait for the next tick."""
        if self._dialogue.results.unacknowledged >= _MOST_UNACKNOWLEDGED:
            self._now_due()

    def _wanted(self, since_seconds: float, interval_seconds: float) -> bool:
        speech = self._dialogue.speech
        keeps_much = speech is not None and speech.kept_bytes * 2 > self._keep_bytes
        return (
            self._dialogue.results.unacknowledged > 0
            or since_seconds >= interval_seconds
            or (keeps_much and since_seconds >= _FORGET_SECONDS)
        )

    def _now_due(self) -> None:
        self.is_due = True
        if self._waiting_since is None:
            # Counted from here, because on a dead connection it may not even be possible to send.
            self._waiting_since = self._clock.monotonic()
        self._dialogue.bell.ring()
