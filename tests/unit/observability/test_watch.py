"""Slow paths, slow locks, and a late event loop are noticed."""

from __future__ import annotations

import asyncio
import time

import uvloop
from tests.unit.observability.log_output import logging_to

from dragoman.clock import ManualClock, SystemClock
from dragoman.observability import LimitWatch, LoopLag, Metrics, yielding


def watch_on(clock: ManualClock) -> tuple[LimitWatch, Metrics]:
    metrics = Metrics()
    return LimitWatch(metrics, clock, path_warn_ms=50, lock_wait_warn_ms=10), metrics


def test_a_slow_path_is_counted_and_warned_of_now_and_then() -> None:
    clock = ManualClock()
    watch, metrics = watch_on(clock)
    with logging_to("info", "json") as output:
        for _ in range(3):
            with watch.path("stats_snapshot"):
                clock.advance(0.080)

    assert metrics.slow_path.counts() == {"stats_snapshot": 3}
    (warning,) = output.objects
    assert (warning["event"], warning["name"], warning["took_ms"]) == (
        "slow_path",
        "stats_snapshot",
        80.0,
    )


def test_a_quick_path_is_not_counted() -> None:
    clock = ManualClock()
    watch, metrics = watch_on(clock)
    with watch.path("stats_snapshot"):
        clock.advance(0.050)

    assert metrics.slow_path.counts() == {}


def test_a_path_that_fails_is_measured_and_its_error_goes_on() -> None:
    clock = ManualClock()
    watch, metrics = watch_on(clock)
    caught = False
    with logging_to("error", "json"):
        try:
            with watch.path("sweep"):
                clock.advance(1)
                raise KeyError("x")
        except KeyError:
            caught = True

    assert caught
    assert metrics.slow_path.counts() == {"sweep": 1}


def test_a_long_wait_for_a_lock_is_measured_and_counted() -> None:
    clock = ManualClock()
    watch, metrics = watch_on(clock)

    async def scenario() -> list[str]:
        lock = watch.watched_lock("session")
        order: list[str] = []
        first_has_it = asyncio.Event()

        async def first() -> None:
            async with lock:
                first_has_it.set()
                await asyncio.sleep(0)
                clock.advance(0.030)
                order.append("first")

        async def second() -> None:
            await first_has_it.wait()
            async with lock:
                order.append("second")

        await asyncio.gather(first(), second())
        assert not lock.locked()
        return order

    with logging_to("info", "json") as output:
        assert asyncio.run(scenario()) == ["first", "second"]

    assert metrics.slow_lock_wait.counts() == {"session": 1}
    assert [event["event"] for event in output.objects] == ["slow_lock_wait"]
    text = metrics.exposition().decode()
    assert 'scheduler_lock_wait_seconds_count{lock="session"} 2.0' in text


def lag_sum(metrics: Metrics) -> float:
    (family,) = metrics.event_loop_lag.collect()
    return next(sample.value for sample in family.samples if sample.name.endswith("_sum"))


def lag_count(metrics: Metrics) -> float:
    (family,) = metrics.event_loop_lag.collect()
    return next(sample.value for sample in family.samples if sample.name.endswith("_count"))


async def block_the_loop(metrics: Metrics) -> None:
    lag = LoopLag(metrics, SystemClock(), interval_seconds=0.01, warn_ms=100)
    lag.start()
    lag.start()
    await asyncio.sleep(0)
    time.sleep(0.2)  # noqa: ASYNC251 - blocking the loop is the point
    measured = lag_count(metrics)
    while lag_count(metrics) == measured:  # noqa: ASYNC110 - nothing signals a measurement
        await asyncio.sleep(0.005)
    await lag.stop()
    await lag.stop()
    assert len(asyncio.all_tasks()) == 1


def test_a_blocked_loop_shows_as_lag_and_a_warning() -> None:
    metrics = Metrics()
    with logging_to("info", "json") as output:
        asyncio.run(block_the_loop(metrics))

    assert lag_sum(metrics) >= 0.15
    assert output.objects[0]["event"] == "event_loop_lag"


def test_lag_is_measured_on_uvloop_too() -> None:
    metrics = Metrics()
    with logging_to("error", "json"), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(block_the_loop(metrics))

    assert lag_sum(metrics) >= 0.15


def test_a_long_pass_lets_others_run_every_two_milliseconds() -> None:
    clock = ManualClock()
    turns_of_others = 0

    async def others() -> None:
        nonlocal turns_of_others
        while True:
            turns_of_others += 1
            await asyncio.sleep(0)

    async def scenario() -> list[int]:
        task = asyncio.ensure_future(others())
        seen = []
        async for number in yielding(range(100), clock):
            seen.append(number)
            clock.advance(0.001)
        task.cancel()
        await asyncio.wait([task])
        return seen

    assert asyncio.run(scenario()) == list(range(100))
    assert 45 <= turns_of_others <= 55


def test_a_short_pass_is_not_interrupted() -> None:
    clock = ManualClock()

    async def scenario() -> bool:
        ran = asyncio.Event()
        asyncio.get_running_loop().call_soon(ran.set)
        async for _ in yielding(range(1_000), clock):
            pass
        return ran.is_set()

    assert asyncio.run(scenario()) is False
