"""Patience with targets that refuse: never much slower than waiting call by call, and kinder."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from random import Random
from typing import NamedTuple, Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.lab.execution.limited_servers import (
    ClosedNowAndThen,
    Erratic,
    FewPlaces,
    FixedWindow,
    LimitedServer,
    TokenBucket,
    Told,
)

from dragoman.clock import Clock
from dragoman.lab.failures import CalledTooOften
from dragoman.lab.worker.execution import Limiter
from dragoman.lab.worker.execution.backoff import backoff_seconds
from dragoman.testing import VirtualClock, run_virtual


def limiter(most: int) -> Limiter:
    return Limiter(most, VirtualClock(asyncio.get_running_loop()), Random(1))


# --- beside waiting call by call --------------------------------------------------------------


class Runs(Protocol):
    """Something that makes calls until they are let in."""

    async def run(self, call: Callable[[], Awaitable[object]]) -> object: ...


class CallByCall:
    """Each refused call waits as told, or for a growing pause, and is made again."""

    def __init__(self, most: int, clock: Clock, random: Random) -> None:
        self._random = random

    async def run(self, call: Callable[[], Awaitable[object]]) -> object:
        refusals = 0
        while True:
            try:
                return await call()
            except CalledTooOften as refusal:
                refusals += 1
                told = refusal.retry_after_seconds
                own = backoff_seconds(refusals, self._random)
                await asyncio.sleep(own if told is None else told)


class Case(NamedTuple):
    """A server, and how much is asked of it."""

    make: Callable[[], LimitedServer]
    items: int
    concurrency: int
    answer_seconds: float


class Taken(NamedTuple):
    """What it took until every item was served."""

    seconds: float
    refused: int


def taken(case: Case, made_by: Callable[[int, Clock, Random], Runs], seed: int) -> Taken:
    async def main() -> Taken:
        server = case.make()
        server.answer_seconds = case.answer_seconds
        loop = asyncio.get_running_loop()
        runs = made_by(case.concurrency, VirtualClock(loop), Random(seed))
        left = iter(range(case.items))

        async def worker() -> None:
            for _ in left:
                await runs.run(partial(server.call, {"text": "a"}, ()))

        await asyncio.gather(*(worker() for _ in range(case.concurrency)))
        assert server.served == case.items, "nothing is asked for twice"
        return Taken(loop.time(), server.refused)

    return run_virtual(main, seed=seed)


def assert_no_worse(case: Case, seed: int) -> tuple[Taken, Taken]:
    ours, plain = taken(case, Limiter, seed), taken(case, CallByCall, seed)
    told = f"{case}, seed {seed}: {ours} instead of {plain}"
    assert ours.seconds <= 1.3 * plain.seconds, told
    # The limiter shifts calls a little: another handful may be caught by a target that closes.
    assert ours.refused <= 1.25 * plain.refused + case.concurrency / 4, told
    return ours, plain


SPEEDS = [
    (call_seconds, concurrency, answer_seconds)
    for call_seconds in (0.01, 0.1, 1.0)
    for concurrency in (4, 16, 64)
    for answer_seconds in (0.005, 0.05, 0.3)
]
RETRY_AFTER_SECONDS = (None, 0.2, 1.0, 5.0)


def buckets() -> Iterator[Case]:
    for seconds, concurrency, answer in SPEEDS:
        for rate in (2.0, 20.0, 100.0):
            for bucket in (0.05, 1.0, 10.0):
                for told in Told:
                    for run_seconds in (3, 12):
                        make = partial(TokenBucket, rate, bucket, seconds, told)
                        items = concurrency + int(min(300, rate * run_seconds))
                        yield Case(make, items, concurrency, answer)


def windows() -> Iterator[Case]:
    for seconds, concurrency, answer in SPEEDS:
        for rate in (2.0, 20.0, 100.0):
            for window in (0.5, 1.0, 10.0):
                for told in Told:
                    for run_seconds in (3, 12):
                        make = partial(FixedWindow, rate, window, seconds, told)
                        items = concurrency + int(min(300, rate * run_seconds))
                        yield Case(make, items, concurrency, answer)


def closing() -> Iterator[Case]:
    for seconds, concurrency, answer in SPEEDS:
        for times in ((3.0, 1.0), (10.0, 2.0), (12.0, 10.0)):
            for told in Told:
                for run_seconds in (4, 20):
                    items = int(min(600, run_seconds * concurrency / seconds))
                    make = partial(ClosedNowAndThen, *times, seconds, told)
                    yield Case(make, items, concurrency, answer)


def erratic() -> Iterator[Case]:
    for seconds, concurrency, answer in SPEEDS:
        for every in (2, 3, 10):
            for retry_after in RETRY_AFTER_SECONDS:
                for items in (30, 200):
                    make = partial(Erratic, every, seconds, retry_after)
                    yield Case(make, items, concurrency, answer)


def places() -> Iterator[Case]:
    for seconds, concurrency, answer in SPEEDS:
        for count in (1, 4, 32):
            for retry_after in RETRY_AFTER_SECONDS:
                for items in (concurrency + 10, int(min(300, max(30, 20 * count / seconds)))):
                    make = partial(FewPlaces, count, seconds, retry_after)
                    yield Case(make, items, concurrency, answer)


PARTS = int(os.environ.get("DRAGOMAN_GRID_PARTS", "8"))
"""With 1, every test walks the whole grid."""


@pytest.mark.parametrize("family", [buckets, windows, closing, erratic, places])
def test_no_target_is_served_much_slower_or_refuses_more_than_call_by_call(
    family: Callable[[], Iterator[Case]],
) -> None:
    """Another part of the grid with every seed: the whole of it takes minutes."""
    seed = int(os.environ.get("DRAGOMAN_SEED", Random().randrange(1_000_000)))
    cases = list(family())
    Random(seed).shuffle(cases)
    pairs = [assert_no_worse(case, seed) for case in cases[: len(cases) // PARTS]]
    ours, plain = (sum(one.refused for one in some) for some in zip(*pairs, strict=True))
    assert ours <= plain, f"seed {seed}"


def test_a_target_that_refuses_every_third_call_does_not_slow_down_the_others() -> None:
    for answer_seconds in (0.005, 0.05, 0.3):
        case = Case(partial(Erratic, 3, 0.05, 0.2), 200, 16, answer_seconds)
        ours, plain = assert_no_worse(case, seed=1)
        assert ours == plain, "nothing but call by call"


def test_a_target_that_happens_to_refuse_many_calls_in_a_row_is_not_called_in_steps() -> None:
    for seed in (681_595, 1, 2, 3, 4):
        for answer_seconds in (0.005, 0.05):
            case = Case(partial(Erratic, 2, 0.01, 0.2), 200, 64, answer_seconds)
            ours, plain = assert_no_worse(case, seed)
            assert ours == plain, "nothing but call by call"


def test_a_window_with_a_quota_is_not_stormed_by_all_who_wait() -> None:
    case = Case(partial(FixedWindow, 20.0, 1.0, 0.1, Told.EXACTLY), 300, 64, 0.005)
    ours, plain = assert_no_worse(case, seed=1)
    assert ours.refused < plain.refused / 2


def test_a_bucket_that_tells_the_moment_is_not_stormed_by_all_who_wait() -> None:
    case = Case(partial(TokenBucket, 5.0, 1.0, 0.1, Told.EXACTLY), 100, 64, 0.005)
    ours, plain = assert_no_worse(case, seed=1)
    assert ours.refused < plain.refused / 4


def test_a_window_that_asks_for_more_than_its_own_length_is_not_served_more_slowly() -> None:
    """What is held back for a while may fall into the next window, and storm that one."""
    for answer_seconds in (0.005, 0.05, 0.3):
        case = Case(partial(FixedWindow, 2.0, 0.5, 0.1, Told.WHOLE_SECONDS), 40, 16, answer_seconds)
        assert_no_worse(case, seed=1)


# --- how many at once -------------------------------------------------------------------------


class Gauge:
    """Counts the calls that run at once."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0

    async def call(self, seconds: float = 1.0) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.running -= 1


def test_no_more_calls_run_at_once_than_allowed() -> None:
    async def main() -> None:
        limit, gauge = limiter(5), Gauge()
        await asyncio.gather(*(limit.run(gauge.call) for _ in range(50)))
        assert gauge.most == 5
        assert asyncio.get_running_loop().time() == pytest.approx(10)

    run_virtual(main, seed=1)


def test_the_number_can_be_changed_while_calls_wait() -> None:
    async def main() -> None:
        limit, gauge = limiter(2), Gauge()
        calls = [asyncio.create_task(limit.run(gauge.call)) for _ in range(40)]
        await asyncio.sleep(0.5)
        assert gauge.running == 2
        limit.most = 10
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert gauge.running == 10, "places that are made are filled at once"
        limit.most = 1
        await asyncio.gather(*calls)
        assert gauge.most == 10
        # Two in the first second, eight more half a second later, then one by one.
        assert asyncio.get_running_loop().time() == pytest.approx(31.5)

    run_virtual(main, seed=1)


def test_a_call_that_stops_waiting_gives_its_place_to_the_next() -> None:
    async def main() -> None:
        limit, gauge = limiter(1), Gauge()
        first, second, third = (asyncio.create_task(limit.run(gauge.call)) for _ in range(3))
        await asyncio.sleep(0.5)
        second.cancel()
        await asyncio.sleep(0.5)
        first.cancel()
        await third
        assert asyncio.get_running_loop().time() == pytest.approx(2)
        assert first.cancelled() or first.done()

    run_virtual(main, seed=1)


@given(
    st.lists(st.tuples(st.floats(0, 3), st.booleans(), st.booleans()), max_size=25),
    st.integers(0, 99),
)
def test_no_place_is_lost_whatever_is_cancelled_or_fails(
    calls: list[tuple[float, bool, bool]], seed: int
) -> None:
    async def main() -> None:
        limit, gauge = limiter(3), Gauge()

        async def one(seconds: float, fails: bool) -> None:
            await gauge.call(seconds)
            if fails:
                raise ValueError

        tasks = [asyncio.create_task(limit.run(partial(one, s, f))) for s, f, _ in calls]
        for task, (_, _, cancelled) in zip(tasks, calls, strict=True):
            await asyncio.sleep(0.1)
            if cancelled:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        gauge.most = 0
        await asyncio.gather(*(limit.run(gauge.call) for _ in range(9)))
        assert gauge.most == 3

    run_virtual(main, seed=seed)
