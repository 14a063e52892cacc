"""Wall clocks that are wrong or are set while the program runs change no deadline.

Each deadline is measured by one clock: this process's monotonic one, or the ledger's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from tests.servers import RedisProcess
from tests.simulation.cluster_world import ClusterWorld, play_together
from tests.simulation.roaming import Roamer
from tests.simulation.speakers import Speaker
from tests.simulation.world import World, settings_with
from tests.simulation.wrong_clocks import WrongClock

from dragoman.clock import SystemClock
from dragoman.ids import new_id
from dragoman.live.protocol import NodeHealth, Outcome, TranslationResult
from dragoman.live.shared import RedisSharedLedger
from dragoman.testing import JobEnding, VirtualClock, run_virtual, seconds

STEPS = [pytest.param(26.0, id="forwards"), pytest.param(-26.0, id="back")]
SKEWS = [pytest.param(28.0, id="ahead"), pytest.param(-28.0, id="behind")]

SHORT: dict[str, Any] = {
    "scheduler__job_timeout__ack_seconds": 2,
    "scheduler__job_timeout__run_seconds": 10,
    "scheduler__job_timeout__total_seconds": 30,
    "scheduler__job_timeout__pending_seconds": 20,
}


def play_with_clock(story: Callable[[World, WrongClock], Awaitable[None]], **settings: Any) -> None:
    """Act a story out with one instance, whose machine's time can be set."""

    async def main() -> None:
        clock = WrongClock(VirtualClock(asyncio.get_running_loop()))
        async with World(
            seed=1, clock=clock, settings=settings_with(**{**SHORT, **settings})
        ) as world:
            await story(world, clock)

    run_virtual(main, seed=1)


# --- one instance, its wall clock is set ----------------------------------------------------------


@pytest.mark.parametrize("step_seconds", STEPS)
def test_a_job_that_runs_longer_than_its_acknowledgement_may_take_is_not_given_up(
    step_seconds: float,
) -> None:
    async def story(world: World, clock: WrongClock) -> None:
        node = await world.node("n", service=seconds(6))
        before = await world.submit("before")
        await world.pass_time(1)
        clock.step(step_seconds)
        jobs = [before, await world.submit("after")]
        for job in jobs:
            record = await job.end()
            assert record.outcome is Outcome.SUCCESS
            assert len(record.attempts) == 1
        assert len(node.assigned) == 2

    play_with_clock(story)


@pytest.mark.parametrize("step_seconds", STEPS)
def test_a_job_that_runs_too_long_is_given_up_in_time(step_seconds: float) -> None:
    async def story(world: World, clock: WrongClock) -> None:
        await world.node("stuck", answer=JobEnding.NEVER)
        clock.step(step_seconds)
        job = await world.submit("r", may_wait=True)
        await world.pass_time(1)
        good = await world.node("good", service=seconds(0.1))
        await job.end()
        assert job.outcome is Outcome.SUCCESS
        assert len(good.assigned) == 1
        assert job.ended_at is not None
        assert 10 <= job.ended_at - job.asked_at <= 12

    play_with_clock(story)


@pytest.mark.parametrize("step_seconds", STEPS)
def test_a_batch_job_goes_on_and_its_request_is_remembered_for_its_lease(
    step_seconds: float,
) -> None:
    async def story(world: World, clock: WrongClock) -> None:
        node = await world.node("n", slots=2, service=seconds(6))
        job = await world.submit("r", batch=True)
        clock.step(step_seconds)
        record = await job.end()
        assert (record.outcome, len(record.attempts)) == (Outcome.SUCCESS, 1)
        again = await world.submit("r", batch=True)
        assert (again.job_id, again.created) == (job.job_id, False)
        assert len(node.assigned) == 1

    play_with_clock(story)


@pytest.mark.parametrize("step_seconds", STEPS)
def test_a_session_and_its_node_stay_through_a_step(step_seconds: float) -> None:
    async def story(world: World, clock: WrongClock) -> None:
        node = await world.node("n", slots=4, service=seconds(6))
        speaker = Speaker(world, acknowledges=True)
        await speaker.connect()
        await speaker.say("before")
        clock.step(step_seconds)
        await speaker.say("after")
        speaker.cut()
        await world.pass_time(5)
        ack = await speaker.come_back()
        assert ack is not None
        assert ack.resumed
        await world.until(lambda: len(speaker.ends) == 2)
        assert all(isinstance(end, TranslationResult) for end in speaker.ends)
        assert [end.utterance_index for end in speaker.ends] == [0, 1]
        assert all(
            end.scheduling.node_ms >= 0 and end.scheduling.dispatch_ms >= 0
            for end in speaker.ends
            if isinstance(end, TranslationResult)
        )
        assert len(node.assigned) == 2
        assert world.health("n") is NodeHealth.READY
        speaker.cut()

    play_with_clock(story)


# --- several instances, one of which has another time ---------------------------------------------


def play_skewed(
    story: Callable[[ClusterWorld], Awaitable[None]], ahead_seconds: float, **settings: Any
) -> None:
    """Act a story out with instances a and b; the machine of b is ahead."""

    async def act(world: ClusterWorld) -> None:
        await world.begin("a")
        await world.begin("b", clock=WrongClock(world.clock, ahead_seconds))
        await story(world)

    play_together(act, names=(), **{**SHORT, **settings})


@pytest.mark.parametrize("ahead_seconds", SKEWS)
@pytest.mark.parametrize("driver", ["a", "b"])
@pytest.mark.parametrize("host", ["a", "b"])
def test_a_long_job_is_done_whichever_instance_has_the_wrong_time(
    driver: str, host: str, ahead_seconds: float
) -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at=host, service=seconds(6))
        job = await world.submit(driver, "r")
        record = await job.end()
        assert (record.outcome, len(record.attempts)) == (Outcome.SUCCESS, 1)
        [assigned] = node.assigned
        assert 29_000 <= assigned.deadline_ms <= 30_000, "the time that is left of its total time"
        times = record.attempts[0].times
        assert times.dispatched_ms <= times.accepted_ms <= times.running_ms <= times.finished_ms

    play_skewed(story, ahead_seconds)


@pytest.mark.parametrize("ahead_seconds", SKEWS)
def test_an_instance_with_the_wrong_time_takes_over_what_another_left(
    ahead_seconds: float,
) -> None:
    async def story(world: ClusterWorld) -> None:
        busy = await world.node("busy", at="b", slots=1, service=seconds(15))
        first = await world.submit("b", "first", may_wait=True)
        second = await world.submit("a", "second", may_wait=True)
        await world.kill("a")
        more = await world.node_anywhere("more", at="b", service=seconds(1))
        await world.until(lambda: len(more.assigned) == 1)
        await world.until(lambda: not more.working)
        await world.pass_time(1)
        ended = await world["b"].ledger.read(second.job_id)
        assert ended is not None
        assert ended.outcome is Outcome.SUCCESS
        await first.end()
        assert len(busy.assigned) == 1

    play_skewed(story, ahead_seconds, scheduler__job_timeout__run_seconds=20)


@pytest.mark.parametrize("ahead_seconds", SKEWS)
def test_a_session_moves_to_an_instance_with_the_wrong_time_and_back(ahead_seconds: float) -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", slots=4, service=seconds(6))
        speaker = Roamer(world, "a", acknowledges=True)
        await speaker.start()
        for number, name in enumerate(("b", "a")):
            await speaker.say(f"sentence {number}")
            await world.pass_time(1)
            speaker.cut()
            ack = await speaker.go_on_at(name)
            assert ack.resumed
        await world.until(lambda: len(speaker.ends) == 2)
        assert all(isinstance(end, TranslationResult) for end in speaker.ends)
        assert len(node.assigned) == 2
        speaker.cut()

    play_skewed(story, ahead_seconds)


@pytest.mark.parametrize("ahead_seconds", SKEWS)
def test_an_offline_node_is_forgotten_in_its_time_whatever_the_wall_clocks_say(
    ahead_seconds: float,
) -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="a")
        await world.until(lambda: world["b"].plane.registry.far.get(node.node_id) is not None)
        await world.kill("a")
        node.cut()
        await world.until(lambda: not world.sees("b", "n"))
        await world.pass_time(15)
        assert await world.ledger.lookup(node.node_id) is not None, "its time is not over"
        await world.pass_time(15)
        assert await world.ledger.lookup(node.node_id) is None

    play_skewed(story, ahead_seconds, scheduler__node_health__forget_offline_seconds=20)


# --- on Redis -------------------------------------------------------------------------------------


@pytest.mark.redis
@pytest.mark.parametrize("ahead_seconds", SKEWS)
def test_on_redis_an_instance_with_the_wrong_time_does_jobs_and_sessions(
    redis_server: RedisProcess, ahead_seconds: float
) -> None:
    async def story(world: World, clock: WrongClock) -> None:
        node = await world.node("n", slots=4, service=seconds(2.5))
        speaker = Speaker(world, acknowledges=True)
        await speaker.connect()
        await speaker.say()
        jobs = [await world.submit("live"), await world.submit("batch", batch=True)]
        clock.step(-ahead_seconds)
        for job in jobs:
            record = await job.end(seconds=30)
            assert (record.outcome, len(record.attempts)) == (Outcome.SUCCESS, 1)
        await world.until(lambda: len(speaker.ends) == 1, seconds=30)
        assert isinstance(speaker.ends[0], TranslationResult)
        assert len(node.assigned) == 3
        speaker.cut()

    async def main() -> None:
        ledger = RedisSharedLedger(
            redis_server.url,
            Random(1),
            keep_delivered=100,
            session_ms=60_000,
            key_prefix=new_id(Random(), "test"),
            timeout_ms=20_000,
        )
        clock = WrongClock(SystemClock(), ahead_seconds)
        settings = settings_with(scheduler__job_timeout__ack_seconds=1)
        async with World(seed=1, clock=clock, settings=settings, ledger=ledger) as world:
            await story(world, clock)

    asyncio.run(main())
