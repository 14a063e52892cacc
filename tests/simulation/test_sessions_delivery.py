"""Results come back in order, once each, and are let go when they have arrived."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.simulation.speakers import open_speaker
from tests.simulation.world import World, play

from dragoman.ids import JobId
from dragoman.live.protocol import (
    AsrPartial,
    JobAssign,
    JobPartial,
    JobResult,
    JobState,
    RunningJob,
    SessionClose,
)
from dragoman.live.shared import SharedLedger
from dragoman.testing import JobEnding, SimulatedNode, exponential, seconds


async def answer(node: SimulatedNode, assign: JobAssign) -> None:
    running = RunningJob(assign.job_id, assign.attempt_id)
    await node.finish(running, JobResult(assign.job_id, assign.attempt_id, True))


async def state(world: World, job_id: JobId) -> JobState | None:
    record = await world.ledger.read(job_id)
    return record.state if record else None


def shared(ledger: SharedLedger) -> SharedLedger:
    """A ledger that several instances could share, and that can lose what it had confirmed."""
    return ledger


def lose(world: World, job_id: JobId) -> None:
    """Let the ledger lose every trace of a job."""
    for shard in world.ledger._shards:
        if job_id in shard.jobs:
            shard._forget(shard.jobs[job_id])


@pytest.mark.parametrize("seed", range(5))
def test_results_come_in_order_however_long_each_takes(seed: int) -> None:
    async def story(world: World) -> None:
        for number in range(4):
            await world.node(f"n{number}", slots=8, service=exponential(1.0))
        speaker = await open_speaker(world, tgt_langs=("en", "zh"))
        for _ in range(30):
            await speaker.say()
            await world.pass_time(0.1)
        await speaker.until_ended(60)
        for target in ("en", "zh"):
            indexes = [end.utterance_index for end in speaker.ends if end.tgt_lang == target]
            assert indexes == list(range(30))
        assert [end.delivery_seq for end in speaker.ends] == list(range(1, 61))

    play(story, seed=seed)


def test_a_failover_is_not_seen_in_the_results() -> None:
    async def story(world: World) -> None:
        bad = await world.node("bad", answer=JobEnding.RETRYABLE, service=seconds(0.1))
        await world.node("good", service=seconds(0.1))
        speaker = await open_speaker(world)
        for _ in range(10):
            await speaker.say()
        await speaker.until_ended(10)
        assert bad.assigned, "the test is about something"
        assert [result.node_id for result in speaker.results] == ["good"] * 10
        assert [result.utterance_index for result in speaker.results] == list(range(10))

    play(story)


def test_a_second_result_and_a_strangers_are_dropped_and_counted() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", answer=JobEnding.NEVER)
        other = await world.node("other", answer=JobEnding.NEVER)
        speaker = await open_speaker(world, preferred_node_id="n")
        await speaker.say()
        await world.until(lambda: bool(node.assigned))
        (assign,) = node.assigned
        lie = JobResult(assign.job_id, assign.attempt_id, True, text_translated="a lie")
        await other.say(lie)
        await world.pass_time(1)
        assert speaker.ends == []
        await answer(node, assign)
        await speaker.until_ended(1)
        await answer(node, assign)
        await world.pass_time(1)
        assert len(speaker.ends) == 1
        assert world.dropped("wrong_node") == 1
        assert (
            sum(world.dropped(why) for why in ("late", "duplicate", "unknown_job", "old_attempt"))
            == 1
        )

    play(story)


def test_partials_of_an_utterance_stop_with_its_end() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", answer=JobEnding.NEVER)
        speaker = await open_speaker(world)
        await speaker.speak(50, final=True)
        await world.until(lambda: bool(node.assigned))
        (assign,) = node.assigned
        for text, final in (("a", False), ("a b", True)):
            await node.say(JobPartial(assign.job_id, assign.attempt_id, text, final))
        await answer(node, assign)
        await node.say(JobPartial(assign.job_id, assign.attempt_id, "late", False))
        await speaker.until_ended(1)
        await world.pass_time(1)
        heard = [(partial.text, partial.is_final) for partial in speaker.told(AsrPartial)]
        assert heard == [("a", False), ("a b", True)]

    play(story)


def test_a_partial_that_names_another_job_than_its_attempts_reaches_no_speaker() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", answer=JobEnding.NEVER)
        speaker = await open_speaker(world)
        await speaker.speak(50, final=True)
        await world.until(lambda: bool(node.assigned))
        (assign,) = node.assigned
        await node.say(JobPartial(JobId("j-another"), assign.attempt_id, "mixed up", False))
        await node.say(JobPartial(assign.job_id, assign.attempt_id, "heard", False))
        await answer(node, assign)
        await speaker.until_ended(1)
        assert [partial.text for partial in speaker.told(AsrPartial)] == ["heard"]

    play(story)


def test_an_utterance_whose_record_is_lost_is_delivered_all_the_same() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", answer=JobEnding.NEVER)
        speaker = await open_speaker(world)
        await speaker.say("lost")
        await speaker.say("kept")
        await world.until(lambda: len(node.assigned) == 2)
        lost, kept = node.assigned
        lose(world, lost.job_id)
        await answer(node, kept)
        await answer(node, lost)
        await speaker.until_ended(2, seconds=5)
        assert [end.utterance_index for end in speaker.ends] == [0, 1]
        assert not speaker.missing

    play(story, wrap=shared)


def test_a_lost_last_utterance_does_not_keep_a_session_from_closing() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", answer=JobEnding.NEVER)
        speaker = await open_speaker(world)
        await speaker.say("lost")
        await world.until(lambda: bool(node.assigned))
        lose(world, node.assigned[0].job_id)
        await speaker.send(SessionClose())
        await answer(node, node.assigned[0])
        await world.until(lambda: not speaker.connected, seconds=25)
        assert (len(speaker.results), speaker.close_code) == (1, 1000)

    play(story, wrap=shared)


def test_lost_records_keep_no_session_from_its_results() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=200, answer=JobEnding.NEVER)
        speakers = [await open_speaker(world) for _ in range(120)]
        for speaker in speakers:
            await speaker.say()
        await world.until(lambda: len(node.assigned) == 120)
        for assign in node.assigned:
            lose(world, assign.job_id)
        for assign in list(node.assigned):
            await answer(node, assign)
        for speaker in speakers:
            await speaker.until_ended(1, seconds=5)
        assert [len(speaker.results) for speaker in speakers] == [1] * 120

    play(story, wrap=shared)


def test_a_result_for_a_session_that_is_over_is_dropped_and_counted() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", service=seconds(8), obeys_cancel=False)
        speaker = await open_speaker(world)
        await speaker.say()
        await world.until(lambda: bool(node.assigned))
        speaker.cut()
        await world.pass_time(30)
        assert len(world.plane.sessions) == 0
        reasons = ("session_gone", "late", "old_attempt", "unknown_job")
        assert sum(world.dropped(reason) for reason in reasons) == 1

    play(story, scheduler__delivery__resume_grace_seconds=5)


def test_an_acknowledged_result_is_released_but_not_before_its_lease_ends() -> None:
    async def story(world: World) -> None:
        await world.node("n")
        speaker = await open_speaker(world)
        await speaker.say()
        await speaker.say()
        await speaker.until_ended(2)
        acknowledged, kept = (result.job_id for result in speaker.results)
        await speaker.beat(1)
        await world.pass_time(60)
        assert await state(world, acknowledged) is JobState.FINISHED
        for _ in range(3):
            await world.pass_time(20)
            await speaker.beat()
        assert await state(world, acknowledged) is JobState.RELEASED
        assert await state(world, kept) is JobState.FINISHED

    play(story)


def test_an_acknowledgement_of_what_was_never_sent_takes_nothing_away() -> None:
    async def story(world: World) -> None:
        await world.node("n", service=seconds(2))
        speaker = await open_speaker(world)
        await speaker.say()
        await speaker.beat(1_000)
        await speaker.until_ended(1)
        speaker.cut()
        speaker.ends.clear()
        await speaker.come_back()
        await speaker.until_ended(1)
        assert speaker.results[0].delivery_seq == 1

    play(story)


def test_a_client_that_never_acknowledges_costs_a_bounded_amount() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=8, service=seconds(0.01))
        speaker = await open_speaker(world)
        for number in range(40):
            await speaker.say()
            await speaker.until_ended(number + 1)
        session: Any
        (session,) = world.plane.sessions
        assert len(session._deliveries.unacknowledged.jobs()) == 8
        speaker.cut()
        ends, speaker.ends = list(speaker.ends), []
        await speaker.come_back()
        await speaker.until_ended(40)
        assert [end.delivery_seq for end in speaker.ends] == [end.delivery_seq for end in ends]
        assert [end.delivery_seq for end in speaker.missing] == list(range(1, 33))
        assert {end.reason for end in speaker.missing} == {"RATE_LIMITED"}
        assert speaker.results == ends[32:]

    play(story, limits__session_queue=8)


def test_the_last_utterance_is_not_lost_by_closing() -> None:
    """Closing a session once lost its last utterance."""

    async def story(world: World) -> None:
        node = await world.node("n", service=seconds(3))
        speaker = await open_speaker(world)
        await speaker.speak(300)
        assert await speaker.close() == 1000
        assert len(node.assigned) == 1
        assert [result.utterance_index for result in speaker.results] == [0]

    play(story)


def test_chaos_in_the_order_of_results_changes_nothing_for_the_client() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=40, answer=JobEnding.NEVER)
        speaker = await open_speaker(world)
        for number in range(40):
            await speaker.say(str(number))
        await world.until(lambda: len(node.assigned) == 40)
        shuffled = list(node.assigned)
        Random(3).shuffle(shuffled)
        for assign in shuffled:
            await answer(node, assign)
        await speaker.until_ended(40)
        assert [result.utterance_index for result in speaker.results] == list(range(40))

    play(story)
