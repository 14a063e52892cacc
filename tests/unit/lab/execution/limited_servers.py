"""Servers with rate limits of every common sort, on the virtual clock."""

from __future__ import annotations

import asyncio
import math
from enum import StrEnum
from random import Random

from tests.unit.lab.execution.scene import said

from dragoman.lab.failures import CalledTooOften
from dragoman.lab.model import Turn
from dragoman.lab.targets import Output

ANSWER_SECONDS = 0.005
"""How long a server takes to say no, unless a test says otherwise."""


class Told(StrEnum):
    """What a refusal says about when to come back."""

    EXACTLY = "exactly"
    WHOLE_SECONDS = "whole seconds"
    NOTHING = "nothing"


class LimitedServer:
    """Takes about `seconds` for a call; what it refuses is up to its kind."""

    def __init__(self, seconds: float, told: Told) -> None:
        self.seconds = seconds
        self._told = told
        self._random = Random(1)
        self._running = 0
        self.at_once: list[int] = []
        """How many calls ran at once, at the beginning of each."""
        self.refused = 0
        self.answer_seconds = ANSWER_SECONDS

    @property
    def served(self) -> int:
        return len(self.at_once)

    async def call(self, turn: Turn, history: object) -> Output:
        await asyncio.sleep(self.answer_seconds)
        wait_seconds = self.wait_seconds(asyncio.get_running_loop().time())
        if wait_seconds > 0:
            self.refused += 1
            raise CalledTooOften(retry_after_seconds=self._retry_after(wait_seconds))
        self._running += 1
        self.at_once.append(self._running)
        await asyncio.sleep(self.seconds * self._random.uniform(0.5, 1.5))
        self._running -= 1
        return said(str(turn["text"]))

    async def close(self) -> None:
        pass

    def wait_seconds(self, now: float) -> float:
        """How long until a call is let in; 0 for one that is let in now."""
        raise NotImplementedError

    def _retry_after(self, wait_seconds: float) -> float | None:
        if self._told is Told.NOTHING:
            return None
        whole = self._told is Told.WHOLE_SECONDS
        return float(math.ceil(wait_seconds - 1e-9)) if whole else wait_seconds


class TokenBucket(LimitedServer):
    """So many calls a second, and what was not used of the last `bucket_seconds`."""

    def __init__(self, rate: float, bucket_seconds: float, seconds: float, told: Told) -> None:
        super().__init__(seconds, told)
        self._rate = rate
        self._size = max(1, int(rate * bucket_seconds))
        self._tokens = float(self._size)
        self._filled_at = 0.0

    def wait_seconds(self, now: float) -> float:
        self._tokens = min(self._size, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        if self._tokens < 1 - 1e-9:
            return (1 - self._tokens) / self._rate
        self._tokens -= 1
        return 0.0


class FixedWindow(LimitedServer):
    """So many calls in each window; the first call comes when a third of one has passed."""

    def __init__(self, rate: float, window_seconds: float, seconds: float, told: Told) -> None:
        super().__init__(seconds, told)
        self._window_seconds = window_seconds
        self._quota = max(1, int(rate * window_seconds))
        self._passed_seconds = window_seconds / 3
        self._window = 0
        self._used = 0

    def wait_seconds(self, now: float) -> float:
        at = now + self._passed_seconds
        window = int(at / self._window_seconds + 1e-9)
        if window != self._window:
            self._window, self._used = window, 0
        if self._used >= self._quota:
            return (window + 1) * self._window_seconds - at
        self._used += 1
        return 0.0


class ClosedNowAndThen(LimitedServer):
    """Serves everyone, but for the end of every `period_seconds` refuses them all."""

    def __init__(
        self, period_seconds: float, closed_seconds: float, seconds: float, told: Told
    ) -> None:
        super().__init__(seconds, told)
        self._period_seconds = period_seconds
        self._open_seconds = period_seconds - closed_seconds

    def wait_seconds(self, now: float) -> float:
        at = now % self._period_seconds
        return self._period_seconds - at if at >= self._open_seconds else 0.0


class FewPlaces(LimitedServer):
    """Serves so many calls at once; to the others it always says the same."""

    def __init__(self, places: int, seconds: float, retry_after_seconds: float | None) -> None:
        super().__init__(seconds, Told.NOTHING)
        self.places = places
        self._retry_after_seconds = retry_after_seconds

    def wait_seconds(self, now: float) -> float:
        return 1.0 if self._running >= self.places else 0.0

    def _retry_after(self, wait_seconds: float) -> float | None:
        return self._retry_after_seconds


class Erratic(LimitedServer):
    """Refuses every n-th call, whenever it comes."""

    def __init__(self, every: int, seconds: float, retry_after_seconds: float | None) -> None:
        super().__init__(seconds, Told.NOTHING)
        self._every = every
        self._retry_after_seconds = retry_after_seconds
        self._calls = 0

    def wait_seconds(self, now: float) -> float:
        self._calls += 1
        return 1.0 if self._calls % self._every == 0 else 0.0

    def _retry_after(self, wait_seconds: float) -> float | None:
        return self._retry_after_seconds
