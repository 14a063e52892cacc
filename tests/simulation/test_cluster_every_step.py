"""A job without a session whose instance dies at any step of its way still ends, once."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest
from tests.simulation.cluster_world import ClusterWorld, play_together

from dragoman.ids import RequestId, TenantId, request_shard
from dragoman.live.ledger import Ended, JobRecord
from dragoman.live.protocol import Outcome
from dragoman.testing import seconds

FEWEST_STEPS = 6
"""An instance takes more steps than these for a job, or the test missed it."""

BRISK: dict[str, Any] = {
    "scheduler__job_timeout__ack_seconds": 1,
    "scheduler__node_health__heartbeat_interval_seconds": 5,
    "scheduler__node_health__heartbeat_timeout_seconds": 12,
}


class Ends:
    """Every end that a job was given, as the ledger saw it."""

    def __init__(self, world: ClusterWorld) -> None:
        self.given: list[JobRecord] = []
        self._world = world
        for shard in world.ledger._shards:
            end = shard.end

            def watched(job_id, *args, end=end, shard=shard):  # type: ignore[no-untyped-def]
                had_ended = job_id in shard.jobs and shard.jobs[job_id].ended
                answer = end(job_id, *args)
                if isinstance(answer, Ended) and not had_ended:
                    self.given.append(answer.job)
                return answer

            shard.end = watched  # type: ignore[method-assign]

    def of_all(self) -> bool:
        """Whether every job that was made has ended, and no slot is held."""
        jobs = [job for shard in self._world.ledger._shards for job in shard.jobs.values()]
        return all(job.ended for job in jobs) and not self._world.ledger._whereabouts.held


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("node_at", ["a", "b"])
def test_a_job_whose_instance_is_killed_at_any_step_ends_once(before: bool, node_at: str) -> None:
    """Its instance dies with the n-th thing it does, for every n: before it, or just after."""
    survived = False

    async def story(world: ClusterWorld) -> None:
        nonlocal survived
        node = await world.node("n", at=node_at, slots=1, service=seconds(0.2))
        ends = Ends(world)
        door = world["a"].access
        world.die_at("a", step, before=before)
        job = await world.submit("a", "r1", may_wait=True)
        await asyncio.sleep(0.4)
        survived = door.operations < door.dies_at
        if node_at == "a" and door.dead:
            await world.move("n", to="b")
        await world.until(ends.of_all, seconds=30, every=0.1)
        shard = request_shard(TenantId("default"), RequestId("r1"), "en")
        made = world.ledger._shards[shard].jobs
        assert len(made) <= 1
        for record in made.values():
            assert record.outcome is Outcome.SUCCESS, f"step {step}: {record.error}"
        assert len(ends.given) == len(made), f"step {step}: {len(ends.given)} ends"
        assert len(job.ends) <= 1
        assert node.over_limit == 0

    for step in count(1):
        play_together(story, seed=step, **BRISK)
        if survived:
            break
    assert step > FEWEST_STEPS


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_job_whose_nodes_instance_is_killed_at_any_step_ends_once(before: bool) -> None:
    survived = False

    async def story(world: ClusterWorld) -> None:
        nonlocal survived
        node = await world.node("n", at="b", slots=1, service=seconds(0.2))
        ends = Ends(world)
        door = world["b"].access
        world.die_at("b", step, before=before)
        job = await world.submit("a", "r1", may_wait=True)
        await world.until(lambda: job.over or "b" not in world.instances)
        survived = door.operations < door.dies_at
        if door.dead:
            await asyncio.sleep(0.3)
            await world.move("n", to="a")
        record = await job.end()
        assert record.outcome is Outcome.SUCCESS, f"step {step}: {record.error}"
        await world.until(ends.of_all, seconds=30, every=0.1)
        assert (len(job.ends), len(ends.given)) == (1, 1), f"step {step}"
        assert node.over_limit == 0

    for step in count(1):
        play_together(story, seed=step, **BRISK)
        if survived:
            break
    assert step > FEWEST_STEPS
