"""What a tenant may have at a time is counted over all instances."""

from __future__ import annotations

import asyncio

from tests.simulation.cluster_world import ClusterWorld, play_together
from tests.simulation.roaming import Roamer, open_roamer

from dragoman.errors import DependencyDown, RateLimited
from dragoman.live.protocol import Outcome
from dragoman.testing import JobEnding, seconds


def test_a_tenants_sessions_are_counted_over_all_instances() -> None:
    async def story(world: ClusterWorld) -> None:
        one = await open_roamer(world, "a")
        two = await open_roamer(world, "b")
        assert await is_refused(world, "b")
        one.cut()
        await world.kill("a")
        ack = await one.go_on_at("b")
        assert ack.resumed
        await asyncio.sleep(60)
        assert await is_refused(world, "b")
        assert await two.close() == 1000
        assert not await is_refused(world, "b")

    play_together(story, limits__sessions_per_tenant=2)


def test_sessions_of_an_instance_that_is_gone_count_no_longer() -> None:
    async def story(world: ClusterWorld) -> None:
        for _ in range(2):
            await open_roamer(world, "a")
        assert await is_refused(world, "b")
        await world.kill("a")
        await asyncio.sleep(60)
        assert not await is_refused(world, "b")

    play_together(story, limits__sessions_per_tenant=2)


def test_while_the_limits_cannot_be_asked_for_new_sessions_are_refused() -> None:
    async def story(world: ClusterWorld) -> None:
        speaker = await open_roamer(world, "a")
        world.hub.go_down()
        assert await is_refused(world, "b")
        world.hub.come_back()
        assert not await is_refused(world, "b")
        assert speaker.connected

    play_together(story, limits__sessions_per_tenant=5)


def test_a_tenants_jobs_are_counted_over_all_instances() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="a", slots=9, service=seconds(1.0))
        jobs = [await world.submit(at, f"r-{at}") for at in "ab"]
        late = await world.submit("b", "late")
        assert isinstance(late.refusal, RateLimited)
        other = await world.submit("b", "other", tenant="somebody else")
        assert other.refusal is None
        again = await world.submit("b", "r-a")
        assert again.refusal is None, "a repeated request finds its job"
        for job in jobs:
            assert (await job.end()).outcome is Outcome.SUCCESS
        await asyncio.sleep(0.1)
        assert (await world.submit("b", "late")).refusal is None
        await asyncio.sleep(2)
        assert not any(world.hub.leases.values())

    play_together(story, limits__max_inflight_per_tenant=2)


def test_a_job_that_another_instance_takes_over_still_counts() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=1, answer=JobEnding.NEVER)
        for number in range(2):
            await world.submit("a", f"r{number}", batch=True)
        await world.kill("a")
        await asyncio.sleep(70)
        late = await world.submit("b", "late")
        assert isinstance(late.refusal, RateLimited)

    play_together(
        story, limits__max_inflight_per_tenant=1, scheduler__job_timeout__total_seconds=200
    )


def test_while_the_limits_cannot_be_asked_for_new_jobs_are_refused() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="a", slots=9)
        world.hub.go_down()
        refused = await world.submit("a", "r")
        assert isinstance(refused.refusal, DependencyDown)
        world.hub.come_back()
        again = await world.submit("a", "r")
        assert (await again.end()).outcome is Outcome.SUCCESS

    play_together(story, limits__max_inflight_per_tenant=5)


async def is_refused(world: ClusterWorld, at: str) -> bool:
    """Whether an instance takes no new session."""
    return await Roamer(world, at).connect() is None
