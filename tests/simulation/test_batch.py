"""Batch work uses what live work leaves free, and moves on even under load."""

from __future__ import annotations

from tests.simulation.world import World, play

from dragoman.live.protocol import Outcome
from dragoman.testing import JobEnding, seconds


def test_batch_work_leaves_the_headroom_free() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=4, service=seconds(3))
        jobs = [await world.submit(f"b{number}", batch=True) for number in range(5)]
        assert all(job.created for job in jobs), "batch is never refused for want of a slot"
        await world.pass_time(1)
        assert node.high_water == 3, "a quarter of four slots stays free"
        for job in jobs:
            await job.end()
            assert job.outcome is Outcome.SUCCESS

    play(story)


def test_batch_work_runs_on_a_fleet_of_one_slot() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=1)
        job = await world.submit("b", batch=True)
        await job.end()
        assert job.outcome is Outcome.SUCCESS

    play(story)


def test_live_work_takes_a_slot_over_from_batch_work() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=2, service=seconds(20), cancel_seconds=1)
        batch = await world.submit("batch", batch=True)
        await world.submit("live 1")
        await world.pass_time(1)
        node.behaviour.service = seconds(1)
        live = await world.submit("live 2")
        assert live.refusal is None, "it waits for the slot, also without being allowed to wait"
        await live.end()
        assert live.outcome is Outcome.SUCCESS
        assert (live.ended_at or 0) - live.asked_at < 3
        record = await batch.end()
        assert batch.outcome is Outcome.SUCCESS, "it was requeued, not lost"
        first = record.attempts[0]
        assert first.error is not None
        assert (first.error.code, first.counts) == ("PREEMPTED", False)
        assert record.attempts_used == 1
        assert node.over_limit == 0

    play(story)


def test_a_batch_attempt_that_does_not_give_way_in_time_makes_the_live_job_look_again() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=2, answer=JobEnding.NEVER, obeys_cancel=False)
        await world.submit("batch", batch=True)
        await world.submit("live 1")
        await world.pass_time(1)
        live = await world.submit("live 2")
        assert live.refusal is None
        await world.pass_time(1)
        await world.node("new", slots=1)
        await live.end()
        assert live.outcome is Outcome.SUCCESS
        assert (live.ended_at or 0) - live.asked_at < 7

    play(story)


def test_a_batch_job_that_gave_way_often_enough_is_left_alone() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=2, service=seconds(6))
        batch = await world.submit("batch", batch=True)
        await world.submit("filler")
        for number in range(12):
            await world.pass_time(2)
            await world.submit(f"live {number}", may_wait=True)
        record = await batch.end()
        assert batch.outcome is Outcome.SUCCESS
        assert record.preemptions <= 1

    play(story, scheduler__selection__batch_max_preemptions=1)


def test_a_live_job_that_is_cancelled_while_it_waits_to_inherit_leaves_the_slot_to_others() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=2, service=seconds(9), cancel_seconds=2)
        await world.submit("batch", batch=True)
        await world.submit("live 1")
        await world.pass_time(1)
        heir = await world.submit("heir")
        assert heir.refusal is None
        assert await world.cancel(heir)
        await world.pass_time(2.5)
        assert await world.held() == 1, "the batch attempt has let go and nobody took its place"

    play(story, scheduler__selection__batch_headroom=0.5)


def test_batch_work_is_timed_from_each_dispatch_and_waits_for_ever() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=2, service=seconds(50))
        first = await world.submit("first", batch=True)
        second = await world.submit("second", batch=True)
        await first.end()
        record = await second.end()
        assert (first.outcome, second.outcome) == (Outcome.SUCCESS, Outcome.SUCCESS)
        assert len(record.attempts) == 1

    play(
        story,
        scheduler__job_timeout__run_seconds=55,
        scheduler__selection__batch_headroom=0.5,
    )
