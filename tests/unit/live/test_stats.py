"""The stats snapshot: one maker, any number of readers, and numbers that are kept on change."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from types import FrameType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.simulation.world import World, play, settings_with

from dragoman.clock import Clock
from dragoman.errors import DependencyDown, StatsNotReady
from dragoman.ids import NodeId, SessionId
from dragoman.live.dispatch.telemetry import Rate
from dragoman.live.fleet.node import Census, Headcount
from dragoman.live.protocol import Mode, NodeHealth, ServiceType, SessionInit
from dragoman.live.sessions import LanguageUsage
from dragoman.live.stats import (
    LANGUAGES_SHOWN,
    SAMPLE,
    JobStats,
    NodeStats,
    SessionStats,
    SlotStats,
    Stats,
    StatsCache,
    StatsSource,
    language_usage,
)
from dragoman.observability import LimitWatch, Metrics
from dragoman.testing import VirtualClock, run_virtual, seconds

NOTHING = Stats(
    generated_at="2026-01-31T12:00:00.000Z",
    stale=False,
    sessions=SessionStats(0, (), {}),
    nodes=NodeStats(0, {}, {}, SlotStats(0, 0)),
    jobs=JobStats(0, 0, 0, 0),
)


class Maker:
    """Makes snapshots as slowly, or as badly, as a test wants."""

    def __init__(self) -> None:
        self.begun = 0
        self.at_once = 0
        self.seconds = 0.0
        self.error: Exception | None = None

    async def take(self) -> Stats:
        self.begun += 1
        self.at_once += 1
        assert self.at_once == 1, "two snapshots were being made at once"
        await asyncio.sleep(self.seconds)
        self.at_once -= 1
        if self.error is not None:
            raise self.error
        return msgspec.structs.replace(NOTHING, jobs=JobStats(self.begun, 0, 0, 0))


def tell(story: Callable[[StatsCache, Maker, Clock], Awaitable[None]], **rules: float) -> Metrics:
    """Act a story out on the virtual clock: a cache without its loop, and a maker."""
    metrics = Metrics()
    settings = settings_with(**{f"scheduler__stats__{name}": rules[name] for name in rules})

    async def main() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        watch = LimitWatch(metrics, clock, path_warn_ms=50, lock_wait_warn_ms=10)
        maker = Maker()
        cache = StatsCache(maker.take, settings.scheduler.stats, metrics, watch, clock)
        try:
            await story(cache, maker, clock)
        finally:
            await cache.stop()

    run_virtual(main, seed=1)
    return metrics


# --- who makes a snapshot, and when ------------------------------------------------------------


def test_a_thousand_cold_requests_cause_one_generation_and_none_waits() -> None:
    async def story(cache: StatsCache, maker: Maker, clock: Clock) -> None:
        maker.seconds = 3.0
        began = clock.monotonic()

        async def ask() -> None:
            with pytest.raises(StatsNotReady):
                cache.read()

        await asyncio.gather(*(ask() for _ in range(1_000)))
        assert clock.monotonic() == began
        await asyncio.sleep(2)
        with pytest.raises(StatsNotReady):
            cache.read()
        await asyncio.sleep(2)
        assert cache.read().jobs.created == 1
        assert maker.begun == 1

    tell(story)


def test_a_cold_generation_that_fails_is_tried_again_only_after_the_window() -> None:
    async def story(cache: StatsCache, maker: Maker, clock: Clock) -> None:
        maker.error = DependencyDown("The ledger did not answer.")
        for _ in range(29):
            with pytest.raises(StatsNotReady):
                cache.read()
            await asyncio.sleep(1)
        assert maker.begun == 1
        await asyncio.sleep(1)
        with pytest.raises(StatsNotReady):
            cache.read()
        await asyncio.sleep(1)
        assert maker.begun == 2

    tell(story, cold_window_seconds=30)


def test_a_snapshot_is_made_again_and_again() -> None:
    async def story(cache: StatsCache, maker: Maker, clock: Clock) -> None:
        loop = asyncio.create_task(cache.run())
        await asyncio.sleep(26)
        assert maker.begun == 6
        assert cache.read().jobs.created == 6
        loop.cancel()
        await asyncio.wait([loop])

    tell(story, snapshot_seconds=5)


def test_while_a_slow_snapshot_is_made_the_old_one_is_read_at_once() -> None:
    async def story(cache: StatsCache, maker: Maker, clock: Clock) -> None:
        loop = asyncio.create_task(cache.run())
        await asyncio.sleep(1)
        maker.seconds = 100.0
        await asyncio.sleep(30)
        began = clock.monotonic()
        answers = [cache.read() for _ in range(1_000)]
        assert clock.monotonic() == began
        assert all(stats.stale and stats.jobs.created == 1 for stats in answers)
        assert maker.begun == 2
        loop.cancel()
        await asyncio.wait([loop])

    metrics = tell(story, snapshot_seconds=5, stale_after_seconds=10)
    assert "scheduler_stats_stale_total 1000.0" in metrics.exposition().decode()


def test_a_snapshot_that_fails_leaves_the_old_one_which_is_called_stale_in_time() -> None:
    async def story(cache: StatsCache, maker: Maker, clock: Clock) -> None:
        loop = asyncio.create_task(cache.run())
        await asyncio.sleep(1)
        maker.error = RuntimeError("on purpose")
        await asyncio.sleep(8)
        assert not cache.read().stale
        await asyncio.sleep(8)
        assert cache.read().stale
        maker.error = None
        await asyncio.sleep(8)
        assert not cache.read().stale
        loop.cancel()
        await asyncio.wait([loop])

    tell(story, snapshot_seconds=5, stale_after_seconds=10)


def test_the_age_of_the_snapshot_grows_also_when_none_was_ever_made() -> None:
    async def story(cache: StatsCache, maker: Maker, clock: Clock) -> None:
        await asyncio.sleep(40)
        assert "scheduler_stats_snapshot_age_seconds 40.0" in exposed()
        loop = asyncio.create_task(cache.run())
        await asyncio.sleep(1)
        assert "scheduler_stats_snapshot_age_seconds 1.0" in exposed()
        loop.cancel()
        await asyncio.wait([loop])

        assert maker.begun == 1

    metrics = Metrics()

    def exposed() -> str:
        return metrics.exposition().decode()

    async def main() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        watch = LimitWatch(metrics, clock, path_warn_ms=50, lock_wait_warn_ms=10)
        maker = Maker()
        cache = StatsCache(maker.take, settings_with().scheduler.stats, metrics, watch, clock)
        await story(cache, maker, clock)

    run_virtual(main, seed=1)


def test_a_slow_snapshot_does_not_delay_dispatch() -> None:
    async def story(world: World) -> None:
        await world.node("n1", slots=8)

        async def slow() -> Stats:
            await asyncio.sleep(1_000)
            return NOTHING

        world.plane.stats._take = slow
        await world.pass_time(6)
        for number in range(20):
            asked_at = world.clock.monotonic()
            errand = await world.submit(f"r{number}")
            assert errand.refusal is None
            assert world.clock.monotonic() == asked_at
            await errand.end()

    play(story)


# --- the times of requests ---------------------------------------------------------------------


def test_latencies_are_those_of_the_last_requests_only() -> None:
    async def story(cache: StatsCache, maker: Maker, clock: Clock) -> None:
        assert cache.latency_ms(0.99) == 0
        for _ in range(SAMPLE):
            cache.answered(9.0)
        for number in range(SAMPLE):
            cache.answered(number / 1000)
        assert cache.latency_ms(0.95) == pytest.approx(950)
        assert cache.latency_ms(0.99) == pytest.approx(990)

    tell(story)


def test_the_rate_is_taken_over_a_sliding_window() -> None:
    rate = Rate(10)
    for number in range(100):
        rate.add(100 + number / 10)
    assert rate.per_second(109.9) == 10
    assert rate.per_second(114.9) == 5
    assert rate.per_second(1_000) == 0


# --- numbers kept on change --------------------------------------------------------------------

headcounts = st.builds(
    Headcount,
    status=st.sampled_from(NodeHealth),
    slots=st.integers(1, 8),
    types=st.frozensets(st.sampled_from(ServiceType)),
)


@given(st.lists(st.tuples(st.integers(0, 5), st.none() | headcounts), max_size=40))
def test_the_census_is_what_counting_over_would_give(
    changes: list[tuple[int, Headcount | None]],
) -> None:
    census, known = Census(Metrics()), dict[int, Headcount]()
    for node, after in changes:
        census.change(known.get(node), after)
        known.pop(node, None)
        if after is not None:
            known[node] = after
    connected = [each for each in known.values() if each.status is not NodeHealth.OFFLINE]
    assert census.total == len(known)
    assert census.slots == sum(each.slots for each in connected)
    assert +census.by_status == Counter(each.status for each in known.values())
    assert +census.by_service_type == Counter(kind for each in connected for kind in each.types)


def test_offline_nodes_bring_neither_slots_nor_services() -> None:
    async def story(world: World) -> None:
        node = await world.node("n1", slots=3)
        await world.node("n2", slots=2)
        source = stats_source(world)
        before = (await source.take()).nodes
        assert (before.total, before.slots.total) == (2, 5)
        assert before.by_service_type[ServiceType.NMT] == 2
        await node.stop()
        await world.until(lambda: world.health("n1") is NodeHealth.OFFLINE)
        after = (await source.take()).nodes
        assert (after.total, after.slots.total) == (2, 2)
        assert after.by_status[NodeHealth.OFFLINE] == 1
        assert after.by_service_type[ServiceType.NMT] == 1

    play(story)


def test_jobs_and_slots_are_counted_from_their_making_to_their_end() -> None:
    async def story(world: World) -> None:
        await world.node("n1", slots=4, service=seconds(5.0))
        source = stats_source(world)
        errands = [await world.submit(f"r{number}") for number in range(3)]
        refused = await world.submit("nobody", tgt_lang="xx")
        assert refused.refusal is not None
        running = await source.take()
        assert running.nodes.slots == SlotStats(total=4, used=3)
        assert running.jobs == JobStats(created=4, running=3, success=0, failed=1)
        for errand in errands:
            await errand.end()
        ended = await source.take()
        assert ended.nodes.slots == SlotStats(total=4, used=0)
        assert ended.jobs == JobStats(created=4, running=0, success=3, failed=1)
        assert world.plane.dispatcher.history.ended == [], "none waits to be counted by the minute"
        assert await world.ledger.slots_held() == await world.held() == 0

    play(story)


inits = st.builds(
    SessionInit,
    src_lang=st.sampled_from(["zh", "en", "es"]),
    tgt_langs=st.lists(st.sampled_from(["en", "es", "fr"]), min_size=1, unique=True).map(tuple),
)


@given(st.lists(inits, max_size=20), st.randoms(use_true_random=False))
def test_languages_of_closed_sessions_leave_nothing_behind(
    sessions: list[SessionInit], random: Random
) -> None:
    usage = LanguageUsage()
    for init in sessions:
        usage.opened(init)
    assert usage.as_source == Counter(init.src_lang for init in sessions)
    assert usage.as_target == Counter(lang for init in sessions for lang in init.tgt_langs)
    random.shuffle(sessions)
    for init in sessions:
        usage.closed(init)
    assert not usage.as_source
    assert not usage.as_target


def test_a_session_that_goes_either_way_speaks_and_hears_both_languages() -> None:
    usage = LanguageUsage()
    usage.opened(SessionInit(mode=Mode.TWO_WAY_AUTO, lang_a="zh", lang_b="en"))
    usage.opened(SessionInit(src_lang="auto", auto_langs=("fr", "de"), tgt_lang="en"))

    assert usage.as_source == {"zh": 1, "en": 1, "fr": 1, "de": 1}
    assert usage.as_target == {"zh": 1, "en": 2}
    assert next(iter(language_usage(usage.as_source, usage.as_target))) == "en"


def test_ten_thousand_languages_do_not_fill_the_answer() -> None:
    usage = LanguageUsage()
    for number in range(10_000):
        usage.opened(SessionInit(src_lang=f"zh-x{number}", tgt_lang="en"))

    shown = language_usage(usage.as_source, usage.as_target)

    assert len(shown) == LANGUAGES_SHOWN
    assert shown["en"].as_target == 10_000


# --- what it costs -------------------------------------------------------------------------------


def test_neither_a_request_nor_a_snapshot_grows_with_the_fleet_or_the_sessions() -> None:
    """Counts executed lines and calls: with 100,000 nodes and 10,000 sessions they are the same."""

    async def story(world: World) -> None:
        node = await world.node("n1")
        source, cache, registry = stats_source(world), world.plane.stats, world.plane.registry
        session_init = SessionInit(src_lang="zh", tgt_lang="en")
        world.plane.sessions.languages.opened(session_init)
        await source.take()
        few = steps(lambda: finish(source.take())), steps(cache.read)

        only = registry.node(NodeId(node.node_id))
        registry._nodes.update({NodeId(f"x{number}"): only for number in range(100_000)})
        for _ in range(100_000):
            registry.census.change(None, only.counted)
        session: Any = None
        world.plane.sessions._open.update({SessionId(f"s{n}"): session for n in range(10_000)})
        for _ in range(10_000):
            world.plane.sessions.languages.opened(session_init)
        many = steps(lambda: finish(source.take())), steps(cache.read)
        stats = finish(source.take())
        world.plane.sessions._open.clear()

        assert many == few
        assert stats.nodes.total == 100_001
        assert stats.sessions.active == 10_000

    play(story)


def stats_source(world: World) -> StatsSource:
    return StatsSource(
        registry=world.plane.registry,
        sessions=world.plane.sessions,
        dispatcher=world.plane.dispatcher,
        ledger=world.ledger,
        metrics=world.metrics,
        clock=world.clock,
        top_k=20,
    )


def finish(work: Awaitable[Stats]) -> Stats:
    """The result of something that does not wait for anything."""
    try:
        work.__await__().__next__()
    except StopIteration as done:
        result: Stats = done.value
        return result
    raise AssertionError("it waited")


def steps(work: Callable[[], object]) -> int:
    """How many lines of Python something executes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    # What the collector finds may run lines of its own.
    gc.collect()
    gc.disable()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        gc.enable()
    return count
