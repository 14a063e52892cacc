"""A job of one instance on a node of another ends once and soon, whichever step of it is lost.

Everything that the two instances do for the job is lost in turn, in every way it can be: the
question, its answer, the note, and what the ledger confirmed but forgot when its server failed
over.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest
from tests.simulation.cluster_world import ClusterWorld, play_together
from tests.simulation.lost_steps import Loss, LostStep

from dragoman.errors import DependencyDown
from dragoman.live.dispatch import FORGOTTEN
from dragoman.live.protocol import JobCancel, Outcome
from dragoman.testing import JobEnding, SimulatedNode, SubmittedJob, seconds

PENDING = 6.0
ACK = 2.0
RUN = 30.0
GRACE = 1.0
HEARTBEAT = 3.0
TOTAL = 60.0
SERVICE = 0.3
SWEEP = 1.0
"""The sweep and a waiting instance look for a job twice a second; a renewal every ACK / 3."""

SETTINGS: dict[str, Any] = {
    "scheduler__job_timeout__pending_seconds": PENDING,
    "scheduler__job_timeout__ack_seconds": ACK,
    "scheduler__job_timeout__run_seconds": RUN,
    "scheduler__job_timeout__cancel_grace_seconds": GRACE,
    "scheduler__job_timeout__total_seconds": TOTAL,
    "scheduler__node_health__heartbeat_interval_seconds": HEARTBEAT,
    "scheduler__node_health__heartbeat_timeout_seconds": 9,
    "scheduler__node_health__reconnect_grace_seconds": 1,
}

SOON = ACK + GRACE + SWEEP
"""How much longer a job takes when one step is lost: an instance notices that nothing is heard of
its attempt (ack_seconds), has the node stop it (cancel_grace_seconds), and it is done again."""

FEWEST_STEPS = {
    Loss.QUESTION: 5,
    Loss.ANSWER: 5,
    Loss.STORED: 3,
    Loss.LAST_MOMENTS: 3,
    Loss.NOTE: 1,
}
"""An instance takes at least as many for a job, or the test missed some."""


class Tale:
    """How a job goes when nothing is lost, on a node that may have to be mended meanwhile."""

    takes = SERVICE
    service = SERVICE

    async def begin(self, world: ClusterWorld) -> SimulatedNode:
        return await world.node("n", at="b", slots=1, service=seconds(self.service))

    def must_be_mended(self, node: SimulatedNode) -> bool:
        return False

    @property
    def bound(self) -> float:
        """It ends within this when a step is lost, though it be done again."""
        return self.takes + SOON + self.service


class Done(Tale):
    """The node does it at once."""


class DoneSlowly(Tale):
    """It takes longer than a node has to acknowledge it."""

    takes = service = 2.5 * ACK


class TriedAgain(Tale):
    """The node fails first."""

    takes = 2 * SERVICE

    async def begin(self, world: ClusterWorld) -> SimulatedNode:
        node = await super().begin(world)
        node.behaviour.answer = JobEnding.RETRYABLE
        return node

    def must_be_mended(self, node: SimulatedNode) -> bool:
        return bool(node.assigned)


class WaitedForASlot(Tale):
    """The only slot is taken first."""

    takes = 2 * SERVICE

    async def begin(self, world: ClusterWorld) -> SimulatedNode:
        node = await super().begin(world)
        await world.submit("b", "before")
        return node


class GivenUp(Tale):
    """The node says nothing of its first attempt, until it is told to stop."""

    takes = ACK + GRACE + SERVICE

    async def begin(self, world: ClusterWorld) -> SimulatedNode:
        node = await super().begin(world)
        manner = node.behaviour
        manner.answer, manner.acks, manner.beats = JobEnding.NEVER, False, False
        manner.cancel_seconds = 0.1
        return node

    def must_be_mended(self, node: SimulatedNode) -> bool:
        stopped = {heard.attempt_id for heard in node.heard if isinstance(heard, JobCancel)}
        return any(assign.attempt_id in stopped for assign in node.assigned)


TALES = (Done(), DoneSlowly(), TriedAgain(), WaitedForASlot(), GivenUp())


@pytest.mark.parametrize("tale", TALES, ids=lambda tale: type(tale).__name__)
@pytest.mark.parametrize("loses", ["a", "b"])
@pytest.mark.parametrize("loss", Loss, ids=lambda loss: loss.name.lower())
def test_a_job_of_which_any_one_step_is_lost_ends_once_and_soon(
    tale: Tale, loses: str, loss: Loss
) -> None:
    lost = ""

    async def story(world: ClusterWorld) -> None:
        nonlocal lost
        node = await tale.begin(world)
        mending = asyncio.create_task(mend(world, node, tale))
        step = LostStep(world, loses, loss, number)
        job = await ask_until_taken(world, "a")
        try:
            await job.end(seconds=TOTAL)
            await until_nothing_is_left(world)
        finally:
            lost = step.what
            mending.cancel()
        took = (job.ended_at or 0.0) - job.asked_at
        why = f"{loses} lost step {number}, {lost}: {job.outcome} {job.code}, after {took:.1f} s"
        assert len(job.ends) == 1, why
        assert took < tale.bound, why
        if loss in (Loss.QUESTION, Loss.ANSWER, Loss.NOTE):
            assert job.outcome is Outcome.SUCCESS, why
            assert node.over_limit == 0, why

    for number in count(1):
        play_together(story, seed=number, **SETTINGS)
        if not lost:
            break
    assert number > FEWEST_STEPS[loss]


async def ask_until_taken(world: ClusterWorld, at: str) -> SubmittedJob:
    """Ask as a client does: a scheduler that cannot store the job says so, and is asked again."""
    first = job = await world.submit(at, "r1", may_wait=True)
    while isinstance(job.refusal, DependencyDown):
        await asyncio.sleep(0.1)
        job = await world.submit(at, "r1", may_wait=True)
    job.asked_at = first.asked_at
    return job


async def mend(world: ClusterWorld, node: SimulatedNode, tale: Tale) -> None:
    await world.until(lambda: tale.must_be_mended(node), every=0.05)
    manner = node.behaviour
    manner.answer, manner.acks, manner.beats = JobEnding.WELL, True, True


async def until_nothing_is_left(world: ClusterWorld) -> None:
    """Soon no instance drives a job any more, and no slot is held."""

    def nothing_is_left() -> bool:
        held = world.server.held
        counts = [instance.plane.dispatcher.counts() for instance in world.instances.values()]
        return not held and not any(sum(count.values()) for count in counts)

    await world.until(nothing_is_left, SOON + HEARTBEAT + 2 * DoneSlowly.service, every=0.1)


def test_what_a_node_says_while_its_instance_cannot_reach_the_ledger_is_not_lost() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", service=seconds(SERVICE))
        job = await world.submit("a", "r1")
        await world.until(lambda: bool(node.assigned))
        world["b"].access.cut.add(world.ledger)
        await world.until(lambda: not node.working)
        await asyncio.sleep(0.2)
        world["b"].access.cut.clear()
        record = await job.end(seconds=1)
        assert record.outcome is Outcome.SUCCESS
        assert len(node.assigned) == 1, "it was done again"
        await until_nothing_is_left(world)

    play_together(story, **SETTINGS)


def test_a_caller_that_asks_again_elsewhere_after_a_kill_has_the_same_jobs_outcome() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", service=seconds(SERVICE))
        first = await world.submit("a", "r1")
        await world.kill("a")
        again = await world.submit("b", "r1")
        assert again.job_id == first.job_id
        assert (await again.end(seconds=1)).outcome is Outcome.SUCCESS
        asked_at = world.clock.monotonic()
        later = await world.submit("b", "r1")
        assert later.job_id == first.job_id
        assert later.over, "there is an outcome, and it was waited for"
        assert world.clock.monotonic() == asked_at
        assert len(node.assigned) == 1

    play_together(story, **SETTINGS)


def test_a_job_that_another_instance_takes_up_has_waited_as_long_as_it_has() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=1, service=seconds(20), answer=JobEnding.WELL)
        await world.submit("b", "before")
        await world.submit("a", "r1", may_wait=True)
        await asyncio.sleep(PENDING / 2)
        await world.kill("a")
        waits = await world.submit("b", "r1", may_wait=True)
        asked_at = world.clock.monotonic() - PENDING / 2
        record = await waits.end()
        assert (record.outcome, waits.code) == (Outcome.FAILED, "NO_CAPACITY")
        assert world.clock.monotonic() - asked_at < PENDING + SWEEP, "its time began anew"

    play_together(story, **SETTINGS)


def test_a_caller_in_line_is_told_soon_that_the_ledger_lost_the_job() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=1, service=seconds(PENDING))
        await world.submit("b", "before")
        LostStep(world, "a", Loss.STORED, 1)
        job = await world.submit("a", "r1", may_wait=True)
        record = await job.end(seconds=ACK)
        assert (record.outcome, record.error) == (Outcome.FAILED, FORGOTTEN)
        await until_nothing_is_left(world)

    play_together(story, **SETTINGS)


def test_a_job_that_may_wait_no_longer_is_refused_as_soon_as_that_can_be_stored() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=1, service=seconds(3 * PENDING))
        await world.submit("b", "before")
        job = await world.submit("a", "r1", may_wait=True)
        await asyncio.sleep(PENDING - 1)
        world["a"].access.cut.add(world.ledger)
        await asyncio.sleep(2)
        assert not job.over
        world["a"].access.cut.clear()
        await job.end(seconds=1.5)
        assert (job.outcome, job.code) == (Outcome.FAILED, "NO_CAPACITY")

    play_together(story, **SETTINGS)
