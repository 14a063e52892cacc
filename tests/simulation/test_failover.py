"""Nodes that die, stall, refuse, fail or answer for others: what becomes of their jobs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation.world import World, play

from dragoman.live.protocol import JobAck, JobResult, Outcome
from dragoman.testing import JobEnding, seconds


def test_a_killed_node_s_jobs_go_elsewhere_after_the_grace() -> None:
    async def story(world: World) -> None:
        dying = await world.node("dying", slots=1, service=seconds(10))
        job = await world.submit("r")
        other = await world.node("other", slots=1)
        dying.restart()
        record = await job.end()
        assert job.outcome is Outcome.SUCCESS
        assert [past.node_id for past in record.attempts] == ["dying", "other"]
        assert record.attempts[0].error is not None
        assert record.attempts[0].error.code == "NODE_UNAVAILABLE"
        assert 3.0 <= (job.ended_at or 0) - job.asked_at < 4.0, "two seconds of grace, one of work"
        assert other.high_water == 1

    play(story)


def test_a_node_that_comes_back_in_time_goes_on_with_its_work() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=1, service=seconds(10))
        spare = await world.node("spare", slots=1)
        job = await world.submit("r", preferred_node_id="n")
        await world.pass_time(1)
        node.cut()
        await world.pass_time(1)
        await node.connect()
        record = await job.end()
        assert job.outcome is Outcome.SUCCESS
        assert len(record.attempts) == 1, "the work was not done twice"
        assert not spare.assigned
        assert await world.held() == 0

    play(story)


def test_a_result_that_was_ready_while_the_node_was_away_still_counts() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=1, service=seconds(2))
        job = await world.submit("r")
        await world.pass_time(1)
        node.cut()
        await world.pass_time(1.5)
        await node.connect()
        record = await job.end()
        assert job.outcome is Outcome.SUCCESS
        assert len(record.attempts) == 1

    play(story)


def test_a_node_that_comes_back_too_late_is_told_to_stop_and_stays_within_its_slots() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=1, service=seconds(20), cancel_seconds=2)
        job = await world.submit("r", may_wait=True)
        await world.pass_time(1)
        node.cut()
        await world.pass_time(4)
        node.behaviour.service = seconds(1)
        await node.connect()
        record = await job.end()
        assert job.outcome is Outcome.SUCCESS
        assert len(record.attempts) == 2
        assert node.ack is not None
        assert [running.job_id for running in node.ack.cancel] == [job.job_id]
        assert node.over_limit == 0
        assert node.high_water == 1

    play(story)


def test_a_superseded_connection_is_closed_and_its_cleanup_leaves_the_new_one_alone() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=1, service=seconds(5))
        job = await world.submit("r")
        await world.pass_time(1)
        old = node.client
        await node.connect()
        await world.until(lambda: old.link.to_client.ended is not None)
        ended = old.link.to_client.ended
        assert ended is not None
        assert ended.code == 4409
        await world.pass_time(10)
        assert world.health("n") == "ready"
        assert job.outcome is Outcome.SUCCESS
        assert len(job.ends[0].attempts) == 1

    play(story)


def test_a_paused_node_is_closed_by_the_heartbeat_timeout_and_its_late_result_is_dropped() -> None:
    async def story(world: World) -> None:
        paused = await world.node("paused", slots=1, service=seconds(1))
        job = await world.submit("r", may_wait=True)
        client = paused.client
        paused.pause()
        await world.node("other", slots=1)
        await job.end()
        assert job.ends[0].attempts[-1].node_id == "other"
        await world.pass_time(60)
        client.link.to_client.resume()
        client.link.to_server.resume()
        await world.until(lambda: paused.close_code is not None)
        assert paused.close_code == 4408
        assert world.health("paused") == "offline"
        assert len(job.ends) == 1

    play(story)


def test_frames_held_back_for_a_moment_change_nothing() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=1, service=seconds(1))
        node.pause()
        job = await world.submit("r")
        await world.pass_time(3)
        node.resume()
        await job.end()
        assert job.outcome is Outcome.SUCCESS
        assert len(job.ends[0].attempts) == 1

    play(story)


def test_a_node_cannot_answer_for_another_one_s_attempt() -> None:
    async def story(world: World) -> None:
        honest = await world.node("honest", slots=1, service=seconds(3))
        job = await world.submit("r")
        liar = await world.node("liar", slots=1)
        await world.until(lambda: bool(honest.working))
        running = next(iter(honest.working.values()))
        await liar.say(JobAck(running.job_id, running.attempt_id))
        lie = JobResult(running.job_id, running.attempt_id, True, text_translated="a lie")
        await liar.say(lie)
        await liar.say(JobResult(running.job_id, "a-0123456789abcdef01234567", True))  # type: ignore[arg-type]
        record = await job.end()
        assert record.output is not None
        assert record.output.text_translated == "honest"
        assert world.dropped("wrong_node") == 1
        assert world.dropped("unknown_job") == 1

    play(story)


def test_an_answer_after_failover_is_counted_as_late_and_changes_nothing() -> None:
    async def story(world: World) -> None:
        slow = await world.node("slow", slots=1, service=seconds(40), obeys_cancel=False)
        job = await world.submit("r")
        await world.node("other", slots=1)
        await job.end()
        assert job.ends[0].attempts[-1].node_id == "other"
        await world.until(lambda: not slow.working)
        await world.pass_time(1)
        assert len(job.ends) == 1
        assert world.dropped("late") == 1
        assert await world.held() == 0

    play(story)


FAILURES: dict[str, tuple[dict[str, Any], str, float]] = {
    "never_acks": ({"acks": False, "answer": JobEnding.NEVER}, "JOB_TIMEOUT", 5.0),
    "never_finishes": ({"answer": JobEnding.NEVER}, "JOB_TIMEOUT", 30.0),
    "overloaded": ({"answer": JobEnding.OVERLOADED}, "NODE_OVERLOADED", 0.0),
    "fails": ({"answer": JobEnding.RETRYABLE}, "MODEL_CRASHED", 1.0),
    "model_missing": ({"answer": JobEnding.MODEL_MISSING}, "MODEL_NOT_AVAILABLE", 1.0),
}


@pytest.mark.parametrize("name", FAILURES)
def test_an_attempt_that_brings_nothing_is_tried_on_another_node(name: str) -> None:
    manner, code, after_seconds = FAILURES[name]

    async def story(world: World) -> None:
        # A node that lists what it never acknowledges has acknowledged it: this one is mute.
        bad: dict[str, Any] = {**manner, "lists": name != "never_acks"}
        await world.node("bad", slots=1, **bad)
        await world.node("good", slots=1)
        job = await world.submit("r", preferred_node_id="bad")
        record = await job.end()
        assert job.outcome is Outcome.SUCCESS
        first, second = record.attempts
        assert (first.node_id, second.node_id) == ("bad", "good")
        assert first.error is not None
        assert first.error.code == code
        took = (job.ended_at or 0) - job.asked_at
        assert took == pytest.approx(after_seconds + 1.0, abs=0.5)

    play(story)


def test_a_failure_that_no_other_node_can_mend_ends_the_job_with_its_code() -> None:
    async def story(world: World) -> None:
        await world.node("bad", slots=1, answer=JobEnding.FINAL)
        await world.node("idle", slots=1, answer=JobEnding.FINAL)
        job = await world.submit("r")
        record = await job.end()
        assert (job.outcome, job.code) == (Outcome.FAILED, "MODEL_CRASHED")
        assert len(record.attempts) == 1

    play(story)


def test_three_failed_attempts_end_the_job_and_name_the_last_failure() -> None:
    async def story(world: World) -> None:
        for name in "abcd":
            await world.node(name, slots=1, answer=JobEnding.RETRYABLE)
        job = await world.submit("r")
        record = await job.end()
        assert job.code == "ATTEMPTS_EXHAUSTED"
        assert record.error is not None
        assert record.error.details == {"last": "MODEL_CRASHED"}
        assert len({past.node_id for past in record.attempts}) == 3, "a failed node is avoided"

    play(story)


def test_a_job_ends_when_its_total_time_is_up_whatever_its_attempts_do() -> None:
    async def story(world: World) -> None:
        for name in "abc":
            await world.node(name, slots=1, answer=JobEnding.NEVER)
        job = await world.submit("r")
        await job.end()
        assert job.code == "JOB_TIMEOUT"
        assert (job.ended_at or 0) - job.asked_at == pytest.approx(60.0, abs=0.5)
        await world.pass_time(30)
        assert await world.held() == 0

    play(story)


def test_a_heartbeat_that_lists_an_attempt_is_as_good_as_its_acknowledgement() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=1, service=seconds(8), acks=False)
        job = await world.submit("r")
        await world.pass_time(1)
        await node.beat()
        record = await job.end()
        assert job.outcome is Outcome.SUCCESS
        assert len(record.attempts) == 1

    play(story)
