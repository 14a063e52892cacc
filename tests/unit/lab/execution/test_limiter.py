"""How many calls a target bears: found by asking, kept by not asking too much."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.unit.lab.execution.limited_servers import (
    ClosedNowAndThen,
    FewPlaces,
    FixedWindow,
    LimitedServer,
    TokenBucket,
    Told,
)
from tests.unit.lab.execution.scene import MemoryJournal, bench, item

from dragoman.lab.failures import RateLimited
from dragoman.lab.states import ItemStatus
from dragoman.lab.worker.execution import ItemOutcome, Limiter, Reusable, carry_out
from dragoman.lab.worker.execution.pacing import Pace
from dragoman.virtual import VirtualClock, run_virtual


def limiter(most: int) -> Limiter:
    return Limiter(most, VirtualClock(asyncio.get_running_loop()), Random(1))


# --- a server with a limit --------------------------------------------------------------------


def carried_out(
    make: Callable[[], LimitedServer], items: int, concurrency: int, seed: int
) -> tuple[LimitedServer, list[ItemOutcome], float]:
    """Many items through one server; also how long it took."""

    async def main() -> tuple[LimitedServer, list[ItemOutcome], float]:
        server = make()
        shared = bench(server, concurrency=concurrency, seed=seed, retries=0)
        left = iter(range(items))

        async def worker() -> list[ItemOutcome]:
            return [await carry_out(item("a"), Reusable(), MemoryJournal(0), shared) for _ in left]

        done = await asyncio.gather(*(worker() for _ in range(concurrency)))
        outcomes = [outcome for some in done for outcome in some]
        return server, outcomes, asyncio.get_running_loop().time()

    return run_virtual(main, seed=seed)


def assert_nearly_ideal(
    make: Callable[[], LimitedServer], items: int, concurrency: int, seed: int
) -> LimitedServer:
    server, outcomes, seconds = carried_out(make, items, concurrency, seed)
    assert {outcome.status for outcome in outcomes} == {ItemStatus.SUCCESS}
    assert {outcome.try_no for outcome in outcomes} == {1}, "a refusal costs no try"
    assert server.served == items, "nothing is asked for twice"
    assert seconds <= 1.3 * server.ideal_seconds(items, concurrency)
    return server


CONCURRENCY = st.sampled_from([4, 16, 64])
CALL_SECONDS = st.sampled_from([0.01, 0.1, 1.0])
TOLD = st.sampled_from(Told)
SEED = st.integers(0, 2**32)
RUN_SECONDS = 40
few_examples = settings(max_examples=10, phases=[Phase.generate])  # each example says it all


@few_examples
@given(st.sampled_from([5.0, 20.0]), st.sampled_from([1.0, 3.0, 10.0]), CALL_SECONDS, TOLD, SEED)
def test_a_bucket_that_fills_slowly_is_used_nearly_to_the_full(
    rate: float, bucket_seconds: float, call_seconds: float, told: Told, seed: int
) -> None:
    server = assert_nearly_ideal(
        lambda: TokenBucket(rate, bucket_seconds, call_seconds, told),
        int(rate * (RUN_SECONDS + bucket_seconds)),
        64,
        seed,
    )
    assert server.refused < 0.5 * server.served
    if rate * call_seconds < 8:
        later = server.at_once[server.served // 2 :]
        assert sum(later) / len(later) < 32, "no more at once than the target bears"


@few_examples
@given(
    st.sampled_from([5.0, 20.0]),
    CALL_SECONDS,
    st.sampled_from([Told.EXACTLY, Told.NOTHING]),
    SEED,
)
def test_a_small_bucket_is_used_nearly_to_the_full_unless_it_asks_for_long_pauses(
    rate: float, call_seconds: float, told: Told, seed: int
) -> None:
    server = assert_nearly_ideal(
        lambda: TokenBucket(rate, 0.2, call_seconds, told), int(rate * 40), 64, seed
    )
    assert server.refused < 0.5 * server.served


@few_examples
@given(st.sampled_from([5.0, 20.0]), st.sampled_from([1.0, 3.0, 10.0]), CALL_SECONDS, TOLD, SEED)
def test_the_quota_of_a_window_is_used_when_the_window_opens(
    rate: float, window_seconds: float, call_seconds: float, told: Told, seed: int
) -> None:
    server = assert_nearly_ideal(
        lambda: FixedWindow(rate, window_seconds, call_seconds, told),
        int(rate * RUN_SECONDS),
        64,
        seed,
    )
    assert server.refused < 0.8 * server.served


@few_examples
@given(
    st.sampled_from([(3.0, 1.0), (5.0, 1.0), (10.0, 2.0), (30.0, 5.0)]),
    CONCURRENCY,
    st.sampled_from([0.1, 0.5, 1.0]),
    TOLD,
    SEED,
)
def test_a_target_that_is_closed_now_and_then_is_not_taken_for_a_weak_one(
    times: tuple[float, float], concurrency: int, call_seconds: float, told: Told, seed: int
) -> None:
    items = int(min(2_000, RUN_SECONDS * concurrency / call_seconds))
    server = assert_nearly_ideal(
        lambda: ClosedNowAndThen(*times, call_seconds, told), items, concurrency, seed
    )
    assert server.refused < 0.5 * server.served


@few_examples
@given(
    st.sampled_from([1, 2, 4, 8, 32]),
    st.sampled_from([16, 64]),
    st.sampled_from([0.05, 0.2, 1.0, 3.0]),
    st.sampled_from([None, 1.0, 5.0]),
    SEED,
)
def test_the_places_of_a_target_that_counts_calls_at_once_are_kept_taken(
    places: int, concurrency: int, call_seconds: float, retry_after: float | None, seed: int
) -> None:
    items = int(min(2_000, max(RUN_SECONDS * places / call_seconds, 30)))
    server = assert_nearly_ideal(
        lambda: FewPlaces(places, call_seconds, retry_after), items, concurrency, seed
    )
    # All but those that have a place are refused at first, and now and then one that asks for more.
    assert server.refused < concurrency + 2 * RUN_SECONDS


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


def refusing_once(after_seconds: float | None) -> Callable[[], Awaitable[None]]:
    refused = False

    async def call() -> None:
        nonlocal refused
        await asyncio.sleep(0.1)
        if not refused:
            refused = True
            raise RateLimited(retry_after_seconds=after_seconds)

    return call


def test_after_a_refusal_the_target_is_called_at_the_pace_that_went_well() -> None:
    async def main() -> None:
        limit, server = limiter(16), FixedWindow(4.0, 1.0, 0.01, Told.EXACTLY)
        assert limit.calls_a_second == math.inf
        for _ in range(3):
            calls = (limit.run(partial(server.call, {"text": "a"}, ())) for _ in range(16))
            await asyncio.gather(*calls)
            assert 2 < limit.calls_a_second < 12

    run_virtual(main, seed=1)


def test_nobody_calls_during_the_pause_that_was_asked_for() -> None:
    async def main() -> None:
        limit = limiter(4)
        called_at: list[float] = []
        loop = asyncio.get_running_loop()

        async def well() -> None:
            called_at.append(loop.time())

        refused = asyncio.create_task(limit.run(refusing_once(30)))
        await asyncio.sleep(1)
        await asyncio.gather(*(limit.run(well) for _ in range(4)), refused)
        assert min(called_at) >= 30

    run_virtual(main, seed=1)


def test_a_call_that_ends_well_makes_room_for_another_though_the_target_asked_for_a_pause() -> None:
    async def main() -> None:
        limit, server = limiter(16), FewPlaces(4, 1.0, retry_after_seconds=30.0)
        calls = (limit.run(partial(server.call, {"text": "a"}, ())) for _ in range(40))
        await asyncio.gather(*calls)
        assert asyncio.get_running_loop().time() < 30

    run_virtual(main, seed=1)


def test_a_target_with_more_places_than_before_is_called_more() -> None:
    async def main() -> None:
        limit, server = limiter(64), FewPlaces(2, 0.2, retry_after_seconds=1.0)

        async def caller() -> None:
            while asyncio.get_running_loop().time() < 120:
                await limit.run(partial(server.call, {"text": "a"}, ()))

        callers = [asyncio.create_task(caller()) for _ in range(64)]
        await asyncio.sleep(20)
        assert limit.running <= 3
        server.places = 40
        await asyncio.sleep(60)
        assert 36 <= limit.running <= 41
        await asyncio.gather(*callers)

    run_virtual(main, seed=1)


def test_without_a_hint_one_call_goes_ahead_to_see_whether_the_target_is_back() -> None:
    async def main() -> None:
        limit, refused = limiter(32), 0
        loop = asyncio.get_running_loop()

        async def closed_for_ten_seconds() -> None:
            nonlocal refused
            await asyncio.sleep(0.01)
            if loop.time() < 10:
                refused += 1
                raise RateLimited

        await asyncio.gather(*(limit.run(closed_for_ten_seconds) for _ in range(32)))
        assert refused < 32 + 32, "only the first time all of them"
        assert loop.time() < 13

    run_virtual(main, seed=1)


def test_whoever_stops_waiting_gives_the_place_to_the_next() -> None:
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


@given(st.lists(st.tuples(st.floats(0, 100_000), st.booleans()), max_size=20))
def test_a_pace_can_be_asked_at_any_time(moments: list[tuple[float, bool]]) -> None:
    pace, now = Pace(0.0), 0.0
    for passed_seconds, refused in moments:
        now += passed_seconds
        wait_seconds = pace.wait_seconds(now)
        assert 0 <= wait_seconds < math.inf
        now += wait_seconds
        pace.call_made()
        if refused:
            pace.resume(now + 1, refused_at=now, refused=1, told=True)
