"""As many calls at once as are allowed, and patience with targets that refuse some of them.

A refused call waits as long as the target asks, or for a pause that grows, and is made again. Other
calls go on meanwhile: a target may refuse every third call, or all but those it has room for.

Only when nearly all of the latest calls were refused, each with the pause to wait, are calls that
are due together made in steps: as many as went well the last time, then one more, two more, four
more. A refusal answers those that are held back, too: they wait as if they had been refused. So
each call is made about when it would have been made anyway, and those are left out that would have
been in vain.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from dragoman.clock import Clock
from dragoman.lab.failures import CalledTooOften
from dragoman.lab.pace import Learned
from dragoman.lab.worker.execution.backoff import backoff_seconds

T = TypeVar("T")

PATIENCE_SECONDS = 3600.0
"""How long one call is refused before it is given up: a quota for the month is no rate limit."""

LATEST_CALLS, NEARLY_ALL = 20, 19
"""Of so many of the latest calls, so many have to be refused before calls are made in steps. Of a
target that refuses every second call, whatever its pace, that many are hardly ever refused."""

HELD_SHARE, LONGEST_HELD_SECONDS = 0.15, 0.25
"""For how long calls are held back, as a share of the pause that the target asks for, at most."""


@dataclass(eq=False, slots=True)
class _Round:
    """The calls between two refusals: how many of them are not refused."""

    went_well: int = 0


@dataclass(eq=False, slots=True)
class _Call:
    """A call that is being made."""

    round: _Round
    made_at: float
    refused: bool = False


class Limiter:
    """Lets at most `most` calls through at once, and waits out what a target refuses."""

    def __init__(self, most: int, clock: Clock, random: Random) -> None:
        self._most = most
        self._clock = clock
        self._random = random
        self._running = 0
        self._waiting: deque[asyncio.Future[_Call | CalledTooOften]] = deque()
        """Each is told of its call, or of the refusal that answers it without being made."""
        self._timer: asyncio.TimerHandle | None = None
        self._latest: deque[_Call] = deque(maxlen=LATEST_CALLS)
        self._asked_seconds = 0.0
        """The pause that the target asked for last."""
        self._refusal_seconds = 0.0
        """How long the target lately took to say no."""
        self._in_steps = False
        self._round = _Round()
        self._round_is_over = False
        """Whether a call of this round was refused: the next call begins another round."""
        self._went_well = 1
        """Calls that went well in the last round in which any did."""
        self._room = 0
        """Calls that may be made before the next step."""
        self._steps: Iterator[int] = iter(())
        self._last_made_at = -math.inf
        self._hold_until = -math.inf

    @property
    def most(self) -> int:
        return self._most

    @most.setter
    def most(self, most: int) -> None:
        self._most = most
        self._admit()

    @property
    def running(self) -> int:
        """Calls in progress."""
        return self._running

    @property
    def learned(self) -> Learned | None:
        """What is known of a target that refuses most calls; None while it does not."""
        if not self._in_steps and sum(one.refused for one in self._latest) < NEARLY_ALL:
            return None
        return Learned(self._asked_seconds, self._refusal_seconds, self._went_well)

    def learn(self, learned: Learned) -> None:
        """Begin with what others know of the target, unless it was called from here already."""
        if self._latest or self._asked_seconds:
            return
        self._asked_seconds = learned.asked_seconds
        self._refusal_seconds = learned.refusal_seconds
        self._went_well = learned.per_round
        self._in_steps = self._round_is_over = True

    async def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """What the call returns or raises, however often it has to be made until it is let in.

        `CalledTooOften` comes through only when the target has refused for longer than is waited.
        """
        refusals, first_refusal_at = 0, 0.0
        while True:
            due_at = self._clock.monotonic()
            # Who was refused has waited once already, and goes before those who have not.
            entered = await self._enter(first=refusals > 0)
            if isinstance(entered, CalledTooOften):
                refusal = entered
            else:
                try:
                    result = await call()
                except CalledTooOften as raised:
                    refusal = raised
                    self._refused(entered, raised)
                except BaseException:
                    self._leave()
                    raise
                else:
                    self._leave()
                    return result
            refusals += 1
            now = self._clock.monotonic()
            first_refusal_at = now if refusals == 1 else first_refusal_at
            wait_seconds = refusal.retry_after_seconds
            if wait_seconds is None:
                wait_seconds = backoff_seconds(refusals, self._random)
            elif entered is refusal and wait_seconds.is_integer():
                # Rounded up. What was held back counts, so that calls that were due at different
                # times do not come to be due at the same time; the time it takes to be refused
                # does not, so that they come when they would have come.
                wait_seconds -= max(0.0, now - due_at - self._refusal_seconds)
            if now + wait_seconds - first_refusal_at > PATIENCE_SECONDS:
                raise refusal
            await asyncio.sleep(wait_seconds)

    def _refused(self, call: _Call, refusal: CalledTooOften) -> None:
        now = self._clock.monotonic()
        self._refusal_seconds = max(0.9 * self._refusal_seconds, now - call.made_at)
        call.refused = True
        call.round.went_well -= 1
        if refusal.retry_after_seconds is not None:
            self._asked_seconds = max(0.9 * self._asked_seconds, refusal.retry_after_seconds)
            self._in_steps |= sum(one.refused for one in self._latest) >= NEARLY_ALL
            self._round_is_over = True
            if self._in_steps and self._running <= self._most:  # nothing waits for a place
                self._answer_held_back(refusal)
        self._leave()

    def _answer_held_back(self, refusal: CalledTooOften) -> None:
        for held_back in self._waiting:
            if not held_back.done():
                held_back.set_result(refusal)
        self._waiting.clear()

    async def _enter(self, *, first: bool) -> _Call | CalledTooOften:
        """Wait until the call may be made, or is answered by the refusal of another."""
        if not self._waiting and self._wait_seconds() == 0:
            return self._let_in()
        admitted: asyncio.Future[_Call | CalledTooOften] = (
            asyncio.get_running_loop().create_future()
        )
        (self._waiting.appendleft if first else self._waiting.append)(admitted)
        self._admit()
        try:
            return await admitted
        except asyncio.CancelledError:
            if not admitted.cancelled() and isinstance(admitted.result(), _Call):
                self._leave()
            raise

    def _let_in(self) -> _Call:
        now = self._clock.monotonic()
        call = _Call(self._round, now)
        self._latest.append(call)
        self._running += 1
        self._round.went_well += 1
        self._room -= 1
        self._last_made_at = now
        return call

    def _leave(self) -> None:
        self._running -= 1
        self._admit()

    def _admit(self) -> None:
        """Let in the calls that may start, and set a timer for the next one."""
        wait_seconds = math.inf
        while self._waiting:
            if self._waiting[0].done():  # its caller was cancelled
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
        if self._running >= self._most:
            return math.inf
        if not self._in_steps:
            return 0.0
        now = self._clock.monotonic()
        if self._round_is_over and not self._begin_round(now):
            return 0.0
        if self._room <= 0:
            listened_at = self._last_made_at + self._listening_seconds
            if now < listened_at < self._hold_until:
                return listened_at - now
            self._in_steps = listened_at < self._hold_until
            self._room = next(self._steps)
        return 0.0

    @property
    def _listening_seconds(self) -> float:
        """Long enough to hear of a refusal."""
        return 2 * self._refusal_seconds

    def _begin_round(self, now: float) -> bool:
        """Begin another round; whether its calls are made in steps."""
        self._went_well = self._round.went_well or self._went_well
        self._room = self._went_well
        self._steps = self._further_calls()
        self._round = _Round()
        self._round_is_over = False
        hold_seconds = min(HELD_SHARE * self._asked_seconds, LONGEST_HELD_SECONDS)
        self._hold_until = now + hold_seconds
        # With time for one step only, those held back would merely come later, and all at once.
        self._in_steps = 2 * self._listening_seconds <= hold_seconds
        return self._in_steps

    def _further_calls(self) -> Iterator[int]:
        """How many more calls are made as long as none is refused: in the end, all of them."""
        step = 1
        while step < self._most:
            yield step
            step *= 2
        self._in_steps = False
        yield self._most
