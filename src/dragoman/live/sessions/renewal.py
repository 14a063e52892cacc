"""Saying again and again that this instance owns its sessions' records."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from math import ceil

from dragoman.clock import Clock
from dragoman.errors import DependencyDown
from dragoman.live.protocol import SessionState
from dragoman.live.sessions.session import Session
from dragoman.live.shared import SharedLedger

_MOST_TOGETHER = 500
_REST_SECONDS = 2.0
"""Between two times that all are renewed at once, however often there is a cause."""


class Renewal:
    """Renews sessions a few at a time, and all at once after the shared ledger was away.

    It may have come back without what was written last. A session notices that with its next
    write, or here; until then its record is of an earlier time, should this instance die.
    """

    def __init__(
        self,
        sessions: Callable[[], Iterable[Session]],
        shared: SharedLedger,
        clock: Clock,
        turns: int,
    ) -> None:
        """Every session is renewed once in so many turns."""
        self._sessions = sessions
        self._shared = shared
        self._clock = clock
        self._turns = turns
        self._waiting: deque[Session] = deque()
        self._at_a_time = 0
        self._hurried = False
        self._rests_until = 0.0

    def hurry(self) -> None:
        """Something may have been lost: renew all as soon as there are answers."""
        self._hurried = True

    async def turn(self) -> None:
        """Renew those whose turn it is."""
        if not self._waiting:
            self._begin_anew()
        try:
            await self._renew_next(self._at_a_time)
            if self._hurried and self._clock.monotonic() >= self._rests_until:
                self._hurried = False
                self._rests_until = self._clock.monotonic() + _REST_SECONDS
                self._begin_anew()
                await self._renew_next(len(self._waiting))
        except DependencyDown:
            self.hurry()
            raise

    def _begin_anew(self) -> None:
        self._waiting = deque(self._sessions())
        self._at_a_time = ceil(len(self._waiting) / self._turns)

    async def _renew_next(self, count: int) -> None:
        while count > 0 and self._waiting:
            most = min(count, len(self._waiting), _MOST_TOGETHER)
            some = [self._waiting.popleft() for _ in range(most)]
            count -= most
            await self._renew([each for each in some if each.state is not SessionState.OVER])

    async def _renew(self, sessions: Sequence[Session]) -> None:
        held = [each.writer.holding for each in sessions if each.writer is not None]
        refused = set(await self._shared.renew_sessions(held)) if held else set()
        for session in sessions:
            writer = session.writer
            if writer is None or not (session.session_id in refused or writer.doubtful):
                continue
            if await session.check_hold():
                # If one record was of an earlier time, others are too.
                self.hurry()
