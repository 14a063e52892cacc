"""One bad machine cannot eat every job's attempts: it is tried with one job at a time."""

from __future__ import annotations

import asyncio

import pytest
from tests.simulation.cluster_world import ClusterWorld, play_together
from tests.simulation.world import World, play

from dragoman.live.protocol import NodeHealth, NodeStatus, Outcome
from dragoman.testing import JobEnding, SimulatedNode, seconds


def reasons(node: SimulatedNode) -> list[str | None]:
    """Why the node was told to be degraded, each time."""
    return [
        message.reason
        for message in node.heard
        if isinstance(message, NodeStatus) and message.status is NodeHealth.DEGRADED
    ]


async def wear_out(world: World, node: SimulatedNode) -> None:
    """Jobs come until the node is degraded for them."""
    for number in range(30):
        errand = await world.submit(f"wear {node.node_id} {number}", may_wait=True)
        await errand.end()
        if world.health(node.node_id) is NodeHealth.DEGRADED:
            await world.until(lambda: bool(reasons(node)) and not node.working)
            return
    raise AssertionError("the node failed thirty jobs and is not degraded")


@pytest.mark.parametrize("answer", [JobEnding.RETRYABLE, JobEnding.OVERLOADED])
def test_a_node_that_fails_most_of_its_jobs_is_degraded_with_that_reason(answer: JobEnding) -> None:
    async def story(world: World) -> None:
        node = await world.node("n", answer=answer, service=seconds(0.1))
        await wear_out(world, node)
        [reason] = reasons(node)
        assert reason is not None
        assert "jobs failed or timed out; it gets one job at a time" in reason
        assert len(node.assigned) == 6

    play(story)


def test_a_node_that_does_not_answer_is_degraded_by_timeouts() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", answer=JobEnding.NEVER, acks=False, lists=False)
        await world.node("good", service=seconds(0.1))
        for number in range(60):
            await (await world.submit(f"r{number}", may_wait=True)).end()
        assert world.health("n") is NodeHealth.DEGRADED
        assert len(reasons(node)) == 1
        assert world.health("good") is NodeHealth.READY

    play(story)


def test_a_node_on_trial_is_given_one_job_at_a_time_and_recovers_with_a_success() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=4, answer=JobEnding.RETRYABLE, service=seconds(0.1))
        await wear_out(world, node)
        node.high_water = 0
        node.behaviour.answer, node.behaviour.service = JobEnding.WELL, seconds(2)
        first = await world.submit("first")
        second = await world.submit("second")
        assert first.refusal is None
        assert second.refusal is not None
        assert second.refusal.details["reasons"] == {"no_free_slot": 1}
        await first.end()
        await world.until(lambda: world.health("n") is NodeHealth.READY)
        assert node.high_water == 1
        together = [await world.submit(f"after {number}", may_wait=True) for number in range(4)]
        for errand in together:
            await errand.end()
        assert node.high_water == 4

    play(story)


def test_good_heartbeats_do_not_end_the_trial() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", answer=JobEnding.RETRYABLE, service=seconds(0.1))
        await wear_out(world, node)
        for _ in range(5):
            await node.beat()
        await world.pass_time(0.1)
        assert world.health("n") is NodeHealth.DEGRADED

    play(story)


@pytest.mark.parametrize("answer", [JobEnding.FINAL, JobEnding.MODEL_MISSING])
def test_what_is_not_the_node_s_fault_does_not_count_against_it(answer: JobEnding) -> None:
    async def story(world: World) -> None:
        node = await world.node("n", answer=answer, service=seconds(0.1))
        for number in range(20):
            errand = await world.submit(f"r{number}", may_wait=True)
            await errand.end()
            assert errand.outcome is Outcome.FAILED
        assert len(node.assigned) >= 20
        assert world.health("n") is NodeHealth.READY

    play(story, scheduler__model_not_available__unavailable_ttl_seconds=0.5)


def test_cancelled_jobs_do_not_count() -> None:
    async def story(world: World) -> None:
        await world.node("n", service=seconds(30))
        for number in range(20):
            errand = await world.submit(f"r{number}")
            await world.cancel(errand)
            await world.pass_time(0.1)
        assert world.health("n") is NodeHealth.READY

    play(story)


def test_a_breaker_can_be_switched_off() -> None:
    async def story(world: World) -> None:
        await world.node("n", answer=JobEnding.RETRYABLE, service=seconds(0.1))
        for number in range(20):
            await (await world.submit(f"r{number}", may_wait=True)).end()
        assert world.health("n") is NodeHealth.READY

    play(story, scheduler__node_health__breaker_failures=0)


@pytest.mark.parametrize("failing_seconds", [0.01, 2.0])
def test_one_bad_machine_costs_few_jobs_an_attempt(failing_seconds: float) -> None:
    async def story(world: World) -> None:
        bad = await world.node("bad", answer=JobEnding.RETRYABLE, service=seconds(failing_seconds))
        for number in range(4):
            await world.node(f"good-{number}", service=seconds(0.5))
        errands = []
        for number in range(400):
            errands.append(await world.submit(f"r{number}", may_wait=True))
            await asyncio.sleep(0.1)
        for errand in errands:
            await errand.end()
            assert errand.outcome is Outcome.SUCCESS
        # Some to notice, and a trial now and then over forty seconds, each time later.
        assert 6 <= len(bad.assigned) <= 15
        bad.behaviour.answer = JobEnding.WELL
        for number in range(400):
            await (await world.submit(f"after {number}")).end()
        assert world.health("bad") is NodeHealth.READY, "it is tried again by itself"

    play(story)


def test_a_node_on_trial_is_asked_at_once_where_there_is_no_other() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", answer=JobEnding.RETRYABLE, service=seconds(0.1))
        await wear_out(world, node)
        for number in range(5):
            errand = await world.submit(f"trial {number}")
            assert errand.refusal is None
            await errand.end()
        assert world.health("n") is NodeHealth.DEGRADED

    play(story)


# --- several instances ---------------------------------------------------------------------------


def test_failures_that_other_instances_drive_count_too_and_all_see_the_trial() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", slots=4, answer=JobEnding.RETRYABLE)
        for number in range(4):
            errand = await world.submit("a", f"r{number}", may_wait=True)
            await errand.end()
        await world.until(lambda: bool(reasons(node)))
        await asyncio.sleep(1)
        node.behaviour.answer, node.behaviour.service = JobEnding.WELL, seconds(2)
        node.high_water = 0
        first = await world.submit("a", "first", may_wait=True)
        second = await world.submit("a", "second")
        assert second.refusal is not None
        assert second.refusal.details["reasons"] == {"no_free_slot": 1}
        await first.end()
        assert node.high_water == 1
        await world.until(lambda: node.status is NodeHealth.READY)
        await asyncio.sleep(1)
        together = [await world.submit("a", f"after {number}") for number in range(4)]
        for errand in together:
            await errand.end()
        assert node.high_water == 4

    play_together(story)


def test_timeouts_that_another_instance_finds_count_against_the_node() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", answer=JobEnding.NEVER, acks=False, lists=False)
        for number in range(3):
            errand = await world.submit("a", f"r{number}", may_wait=True)
            await errand.end()
        await world.until(lambda: bool(reasons(node)))
        assert node.status is NodeHealth.DEGRADED

    play_together(story)


def test_that_their_instance_cannot_reach_the_ledger_is_not_held_against_nodes() -> None:
    """The nodes acknowledged and worked; their instance could not write it down."""

    async def story(world: ClusterWorld) -> None:
        nodes = [
            await world.node(f"n{number}", at="b", slots=10, service=seconds(2))
            for number in range(2)
        ]
        ack_seconds = world.settings.scheduler.job_timeout.ack_seconds
        for round_number in range(3):
            errands = [
                await world.submit("a", f"r{round_number}/{number}", may_wait=True)
                for number in range(12)
            ]
            await world.until(lambda: all(node.working for node in nodes), every=0.001)
            # The acknowledgements are on their way.
            world.cut_off("b")
            await world.pass_time(ack_seconds + 2)
            world.join_again("b")
            for errand in errands:
                await errand.end()
        assert [reasons(node) for node in nodes] == [[], []]

    play_together(
        story, delay=seconds(0.05), cluster__presence_ttl_seconds=30, cluster__owner_ttl_seconds=45
    )


def test_an_attempt_that_the_node_was_never_told_of_is_not_held_against_it() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", slots=10, service=seconds(0.1))
        world.cut_hub("b")  # notes do not come through; the ledger does
        errands = [await world.submit("a", f"r{number}", may_wait=True) for number in range(8)]
        await world.pass_time(3 * world.settings.scheduler.job_timeout.ack_seconds + 2)
        world.mend_hub("b")
        for errand in errands:
            await errand.end()
        assert reasons(node) == []

    play_together(story)
