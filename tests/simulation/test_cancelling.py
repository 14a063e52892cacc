"""Cancelling keeps the slot until the node lets go, and a cancelled job is never done."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.world import World, play

from dragoman.live.protocol import Command, JobCancel, JobResult, NodeControl, Outcome
from dragoman.testing import JobEnding, seconds


def test_a_waiting_job_can_be_cancelled() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=1, service=seconds(5))
        await world.submit("first")
        job = await world.submit("second", may_wait=True)
        assert await world.cancel(job)
        assert (job.outcome, job.code) == (Outcome.CANCELLED, "JOB_CANCELLED")
        assert world.plane.dispatcher.counts()["waiting"] == 0

    play(story)


def test_a_job_can_be_cancelled_before_its_node_acknowledges_it() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=1, acks=False, service=seconds(2))
        job = await world.submit("r")
        assert await world.cancel(job)
        assert job.outcome is Outcome.CANCELLED
        await world.pass_time(0.1)
        assert not node.working
        assert await world.held() == 0

    play(story)


def test_a_running_job_can_be_cancelled_and_its_node_is_told() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=1, service=seconds(20), cancel_seconds=2)
        job = await world.submit("r")
        await world.pass_time(1)
        assert await world.cancel(job)
        assert job.outcome is Outcome.CANCELLED, "at once for whoever asked"
        await world.pass_time(1)
        assert any(isinstance(message, JobCancel) for message in node.heard)
        assert await world.held() == 1, "the slot is the node's until it answers"
        full = await world.submit("next")
        assert full.refusal is not None
        assert full.refusal.code == "NO_CAPACITY"
        await world.pass_time(2)
        assert await world.held() == 0

    play(story)


def test_a_success_after_the_cancel_is_dropped_and_counted() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=1, service=seconds(3), obeys_cancel=False)
        job = await world.submit("r")
        await world.pass_time(1)
        assert await world.cancel(job)
        await world.pass_time(3)
        assert [end.outcome for end in job.ends] == [Outcome.CANCELLED]
        assert world.dropped("late") == 1
        assert await world.held() == 0

    play(story)


def test_a_finished_job_cannot_be_cancelled() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=1)
        job = await world.submit("r")
        await job.end()
        assert not await world.cancel(job)
        assert job.outcome is Outcome.SUCCESS

    play(story)


def test_a_job_whose_node_is_away_can_be_cancelled_and_is_stopped_when_it_returns() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=1, service=seconds(20))
        job = await world.submit("r")
        await world.pass_time(1)
        node.cut()
        await world.pass_time(0.5)
        assert await world.cancel(job)
        await node.connect()
        await world.until(lambda: not node.working)
        assert job.outcome is Outcome.CANCELLED
        assert node.ack is not None
        assert len(node.ack.cancel) == 1

    play(story)


def test_a_node_that_came_back_is_told_of_a_cancel_over_its_new_connection() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=1, service=seconds(20))
        job = await world.submit("r")
        await world.pass_time(1)
        node.cut()
        await node.connect()
        await world.until(lambda: node.status == "ready" and node.ack is not None)
        await world.pass_time(1)
        assert await world.cancel(job)
        await world.until(lambda: not node.working, 2)
        assert await world.held() == 0

    play(story)


def test_a_node_that_ignores_a_cancel_is_asked_to_report_and_its_answer_decides() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=1, answer=JobEnding.NEVER, obeys_cancel=False)
        job = await world.submit("r")
        await world.pass_time(1)
        assert await world.cancel(job)
        await world.pass_time(4)
        assert not _reports(node.heard), "it has cancel_grace_seconds first"
        await world.until(lambda: bool(_reports(node.heard)))
        await world.pass_time(8)
        assert await world.held() == 1, "it still lists the attempt"
        node.working.clear()
        await node.beat()
        await world.pass_time(0.1)
        assert await world.held() == 0

    play(story)


def test_an_attempt_given_up_by_the_clock_is_not_finished_by_a_later_result() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=1, answer=JobEnding.NEVER, obeys_cancel=False)
        job = await world.submit("r")
        await world.pass_time(1)
        running = next(iter(node.working.values()))
        await job.end()
        assert job.outcome is Outcome.FAILED
        await node.finish(running, JobResult(running.job_id, running.attempt_id, True))
        await world.pass_time(1)
        assert [end.outcome for end in job.ends] == [Outcome.FAILED]

    play(story, scheduler__job_timeout__failover_max_attempts=1)


def _reports(heard: Sequence[object]) -> list[object]:
    return [
        message
        for message in heard
        if isinstance(message, NodeControl) and message.command is Command.REPORT
    ]
