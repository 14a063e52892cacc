"""As many calls at once as are allowed, and no faster than a target bears.

A target that answers "too many requests" is given the pause it asks for; afterwards it is called at
the pace that went well before, or, if it is calls at once that it counts, with no more of them. To
whoever makes a call this is only a wait: a refused call is made again after the pause.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from dragoman.clock import Clock
from dragoman.lab.failures import RateLimited
from dragoman.lab.worker.execution.pacing import Pace
from dragoman.lab.worker.execution.places import Places

T = TypeVar("T")

PATIENCE_SECONDS = 3600.0
"""How long one call is refused before it is given up: a quota for the month is no rate limit."""

_FIRST_PAUSE_SECONDS = 0.4
_PAUSE_GROWTH = 1.25
_LONGEST_PAUSE_SECONDS = 60.0
"""Pauses where the target does not say how long; each one in vain makes the next longer."""


@dataclass
class _Pause:
    """A time in which nobody calls."""

    refused_at: float
    until: float
    told: bool
    """Whether the target said how long."""
    refused: int = 0
    """How many calls of the round were refused."""


class Limiter:
    """Lets at most `most` calls through at once, and fewer while the target says so."""

    def __init__(self, most: int, clock: Clock, random: Random) -> None:
        self._most = most
        self._clock = clock
        self._random = random
        self._running = 0
        self._waiting: deque[asyncio.Future[bool]] = deque()
        """Each is told whether the place it gets was another's, passed on during a pause."""
        self._timer: asyncio.TimerHandle | None = None
        self._pace = Pace(clock.monotonic())
        self._places = Places()
        self._pause: _Pause | None = None
        self._in_vain = 0
        """Pauses in a row after which everything was refused again."""
        self._round = 0
        """Counts the pauses: calls of an earlier round were made before the last one."""
        self._scouting = False
        """The next call goes alone, to find out whether the pause was long enough."""
        self._scout_until = 0.0
        self._to_be_passed_on = 0
        """Places that became free in this pause and have not been passed on."""
        self._passed_on_at = -math.inf
        self._refusal_seconds = 0.0
        """How long the target lately took to say no."""

    @property
    def running(self) -> int:
        """How many calls are being made."""
        return self._running

    @property
    def calls_a_second(self) -> float:
        """How many calls a second the target bears, as far as is known; infinite at first."""
        return self._pace.calls_a_second

    @property
    def most(self) -> int:
        return self._most

    @most.setter
    def most(self, most: int) -> None:
        self._most = most
        self._admit()

    async def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """What the call returns or raises, however often it has to be made until it is let in.

        `RateLimited` comes through only when the target has refused for longer than anyone waits.
        """
        first_refusal: float | None = None
        while True:
            # Who was refused has waited once already, and goes before those who have not.
            passed_on = await self._enter(first=first_refusal is not None)
            round_ = self._round
            made_at = self._clock.monotonic()
            try:
                result = await call()
            except RateLimited as refusal:
                now = self._clock.monotonic()
                first_refusal = now if first_refusal is None else first_refusal
                self._refusal_seconds = max(0.9 * self._refusal_seconds, now - made_at)
                until = self._refused(refusal, now, passed_on=passed_on, late=round_ != self._round)
                self._leave()
                if until - first_refusal > PATIENCE_SECONDS:
                    raise
            except BaseException:
                self._leave()
                raise
            else:
                self._went_well(passed_on)
                return result

    def _refused(self, refusal: RateLimited, now: float, *, passed_on: bool, late: bool) -> float:
        """Learn from a refusal; until when nobody calls."""
        if self._places.known:
            others, asked_seconds = self._running - 1, refusal.retry_after_seconds
            if self._places.refused(others, now, asked_seconds=asked_seconds, late=late):
                return now
            self._pace.begin_again(now)
        elif passed_on:
            self._places.not_let_in()
            self._to_be_passed_on = 0
            if self._pause is not None:
                self._pause.refused += not late
                return self._pause.until  # it came too early, which says nothing new
        pause = self._pause_for(refusal, now)
        pause.refused += not late
        return pause.until

    def _went_well(self, passed_on: bool) -> None:
        if self._places.known:
            self._places.went_well()
        elif passed_on and self._places.let_in(self._running, self._clock.monotonic()):
            self._pause = None
            self._to_be_passed_on = 0
            self._round += 1
            self._scouting = False
            self._scout_until = 0.0
        if self._pause is not None and self._places.may_be_passed_on:
            self._to_be_passed_on += 1
        self._leave()

    # --- pauses -------------------------------------------------------------------------------

    def _pause_for(self, refusal: RateLimited, now: float) -> _Pause:
        """The pause that begins with a refusal, or the one that it falls into."""
        asked_seconds = refusal.retry_after_seconds
        if self._pause is None:
            if asked_seconds is None:
                growth = _PAUSE_GROWTH ** min(self._in_vain, 40)
                longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * growth)
                guess_seconds = self._random.uniform(longest / 2, longest)
                self._pause = _Pause(now, now + guess_seconds, told=False)
            else:
                self._pause = _Pause(now, now + asked_seconds, told=True)
        elif asked_seconds is not None:
            self._pause.until = max(self._pause.until, now + asked_seconds)
            self._pause.told = True
        return self._pause

    def _end(self, pause: _Pause, now: float) -> None:
        went_well = self._pace.resume(
            now, refused_at=pause.refused_at, refused=pause.refused, told=pause.told
        )
        self._places.pause_over()
        self._in_vain = 0 if went_well else self._in_vain + 1
        self._scouting = not went_well or not pause.told
        self._scout_until = 0.0
        self._round += 1
        self._pause = None
        self._to_be_passed_on = 0

    # --- who, and when ------------------------------------------------------------------------

    async def _enter(self, *, first: bool) -> bool:
        """Wait for a place; whether it was another's, passed on during a pause."""
        if not self._waiting and self._wait_seconds() == 0:
            return self._let_in()
        admitted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if first:
            self._waiting.appendleft(admitted)
        else:
            self._waiting.append(admitted)
        self._admit()
        try:
            return await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled():
                self._leave()
            raise

    def _let_in(self) -> bool:
        """Let a call in that does not have to wait; whether its place was passed on to it."""
        self._running += 1
        self._pace.call_made()
        if self._pause is not None:
            self._to_be_passed_on -= 1
            self._passed_on_at = self._clock.monotonic()
            return True
        if self._scouting:
            self._scouting = False
            self._scout_until = self._clock.monotonic() + 2 * self._refusal_seconds
        return False

    def _leave(self) -> None:
        self._running -= 1
        self._admit()

    def _admit(self) -> None:
        """Let in whoever may go; for the next one who only has to wait, be woken in time."""
        wait_seconds = 0.0
        while self._waiting:
            if self._waiting[0].done():  # whoever it was does not wait any more
                self._waiting.popleft()
                continue
            wait_seconds = self._wait_seconds()
            if wait_seconds > 0:
                break
            self._waiting.popleft().set_result(self._let_in())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting and wait_seconds < math.inf:
            self._timer = asyncio.get_running_loop().call_later(wait_seconds, self._admit)

    def _wait_seconds(self) -> float:
        """How long the next call has to wait; infinite until another one ends, 0 if not at all."""
        now = self._clock.monotonic()
        if self._pause is not None:
            if now < self._pause.until:
                return min(self._pause.until - now, self._seconds_until_passed_on(now))
            self._end(self._pause, now)
        if self._running >= self._most:
            return math.inf
        if self._places.known:
            return self._places.wait_seconds(self._running, now)
        if now < self._scout_until:
            return self._scout_until - now
        return self._pace.wait_seconds(now)

    def _seconds_until_passed_on(self, now: float) -> float:
        """How long until a place is passed on during a pause; infinite while there is none."""
        if self._to_be_passed_on == 0 or self._running >= self._most:
            return math.inf
        if self._places.proven_once:
            return 0.0
        # One goes ahead, as long as it takes to be refused: perhaps it is not places that count.
        return max(0.0, self._passed_on_at + 2 * self._refusal_seconds - now)
