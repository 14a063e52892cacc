"""Everything that a process keeps for others is counted in one budget, and leaves it again."""

from __future__ import annotations

import gc

from tests.simulation.speakers import Speaker, open_speaker
from tests.simulation.world import World, play

from dragoman.ids import SessionId
from dragoman.live.ledger import JobRecord
from dragoman.live.protocol import JobResult, Outcome
from dragoman.live.sessions import Session
from dragoman.testing import JobEnding, SubmittedJob, seconds

TEXT = "x" * 1_000
RESULT_BYTES = 512
"""The least that a result weighs."""

SMALL = {"limits__buffered_bytes": 10_000, "limits__session_queue_bytes": 8_000}


def kept(world: World) -> int:
    """What the metric says."""
    [metric] = world.metrics.buffered_bytes.collect()
    return int(metric.samples[0].value)


async def results_of_a_closed_session(world: World, utterances: int) -> None:
    """A session that has ended, whose client acknowledged nothing."""
    speaker = await open_speaker(world)
    for _ in range(utterances):
        await speaker.say(TEXT)
    await speaker.until_ended(utterances)
    await speaker.close()
    await world.pass_time(0.1)


def test_batch_input_past_the_budget_is_refused_and_not_kept() -> None:
    async def story(world: World) -> None:
        await world.node("busy", slots=1, answer=JobEnding.NEVER)
        jobs = [await world.submit(f"r{n}", batch=True, text=TEXT) for n in range(15)]
        taken = [job for job in jobs if job.refusal is None]
        refused = [job.refusal for job in jobs if job.refusal is not None]
        assert 8 <= len(taken) <= 10
        assert {error.code for error in refused} == {"RATE_LIMITED"}
        assert all("limits.buffered_bytes" in error.message for error in refused)
        assert all(error.retry_after_ms for error in refused)
        assert len(taken) * len(TEXT) <= kept(world) <= 10_000
        assert (await world.size())["inputs"] == len(taken)
        again = await world.submit("r0", batch=True, text=TEXT)
        assert again.job_id == jobs[0].job_id, "a repeated request finds its job, budget or not"
        for job in taken:
            await world.cancel(job)
        await world.until(lambda: kept(world) == 0)
        assert (await world.submit("after", batch=True, text=TEXT)).refusal is None

    play(story, **SMALL)


def test_a_live_job_that_cannot_be_kept_is_refused_too() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=4, service=seconds(1))
        too_long = await world.submit("long", text="x" * 20_000)
        assert too_long.refusal is not None
        assert too_long.refusal.code == "RATE_LIMITED"
        assert not node.assigned
        assert kept(world) == 0

    play(story, **SMALL)


def test_the_result_of_a_job_is_counted_until_its_retention_ends() -> None:
    async def story(world: World) -> None:
        await world.node("n", service=seconds(1))
        job = await world.submit("r", text=TEXT)
        await world.pass_time(0.5)
        assert kept(world) == len(TEXT)
        await job.end()
        assert RESULT_BYTES <= kept(world) < len(TEXT), "the input went, the result came"
        await world.pass_time(world.settings.scheduler.job_retention_seconds + 120)
        assert kept(world) == 0

    play(story)


def test_results_are_counted_after_their_acknowledgement_until_their_lease_ends() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=4, service=seconds(1))
        speaker = await open_speaker(world, acknowledges=True)
        await speaker.say(TEXT)
        await speaker.until_ended(1)
        await world.pass_time(0.1)
        assert RESULT_BYTES <= kept(world) < len(TEXT)
        await world.pass_time(world.settings.scheduler.task_binding.lease_seconds + 2)
        assert kept(world) == 0
        await speaker.close()

    play(story)


def test_nothing_is_kept_of_a_session_that_has_ended_once_its_leases_have() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=4, service=seconds(1))
        await results_of_a_closed_session(world, 3)
        assert kept(world) >= 3 * RESULT_BYTES
        await world.pass_time(world.settings.scheduler.task_binding.lease_seconds + 2)
        assert kept(world) == 0

    play(story)


def test_a_session_that_has_ended_is_let_go_of_at_once() -> None:
    """Peers that come back again and again would fill the memory with what they left."""

    async def story(world: World) -> None:
        await world.node("n", slots=4, service=seconds(1))
        speaker = await open_speaker(world, acknowledges=True)
        (session_id,) = (session.session_id for session in world.plane.sessions)
        assert len(sessions_in_memory(session_id)) == 1
        await speaker.close()
        await world.pass_time(1)
        assert sessions_in_memory(session_id) == []

    play(story)


def sessions_in_memory(session_id: SessionId) -> list[Session]:
    gc.collect()
    found = [one for one in gc.get_objects() if isinstance(one, Session)]
    return [one for one in found if one.session_id == session_id]


def test_results_that_no_client_will_come_for_make_room_for_new_work() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=4, service=seconds(0.1))
        await results_of_a_closed_session(world, 3)
        assert kept(world) >= 3 * RESULT_BYTES
        job = await world.submit("r", text="x" * 9_500)
        assert job.refusal is None
        assert (await job.end()).outcome is Outcome.SUCCESS
        assert kept(world) <= 10_000

    play(story, **SMALL)


async def output_of(world: World, job: SubmittedJob) -> JobResult | None:
    """What the ledger has of the job's result."""
    record: JobRecord | None = await world.ledger.read(job.job_id)
    assert record is not None
    return record.output


async def fill_with_results(world: World) -> list[SubmittedJob]:
    """Jobs without a session, until what is kept of them leaves no room for another."""
    jobs: list[SubmittedJob] = []
    while True:
        job = await world.submit(f"fill{len(jobs)}", text=TEXT)
        if job.refusal is not None:
            assert job.refusal.code == "RATE_LIMITED"
            assert job.refusal.retry_after_ms
            return jobs
        assert (await job.end()).outcome is Outcome.SUCCESS
        jobs.append(job)


def test_results_of_jobs_make_room_for_new_work_once_their_leases_end() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=4, service=seconds(0.1))
        lease_seconds = world.settings.scheduler.task_binding.lease_seconds
        assert lease_seconds < world.settings.scheduler.job_retention_seconds
        kept_jobs = await fill_with_results(world)
        for job in kept_jobs:
            assert await output_of(world, job) is not None, "a lease keeps its result"
        await world.pass_time(lease_seconds)
        for job in kept_jobs:
            assert await output_of(world, job) is not None, "there is no need to drop it"
        newest = await world.submit("after", text=TEXT)
        assert newest.refusal is None
        assert (await newest.end()).outcome is Outcome.SUCCESS
        outputs = [await output_of(world, job) for job in kept_jobs]
        assert outputs[0] is None, "the oldest goes first"
        assert outputs[-1] is not None, "and no more than must"
        assert await output_of(world, newest) is not None
        assert kept(world) <= 10_000

    play(story, **SMALL)


def test_a_speaker_is_heard_again_once_the_leases_of_kept_results_end() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=4, service=seconds(0.1))
        await fill_with_results(world)
        speaker = await open_speaker(world)
        await speaker.say(TEXT)
        await speaker.until_ended(1)
        assert [missing.reason for missing in speaker.missing] == ["RATE_LIMITED"]
        await world.pass_time(world.settings.scheduler.task_binding.lease_seconds)
        await speaker.say(TEXT)
        await speaker.until_ended(2)
        assert len(speaker.results) == 1
        await speaker.close()

    play(story, **SMALL)


def test_a_session_that_was_abandoned_leaves_nothing_behind() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=1, service=seconds(3))
        speaker = Speaker(world)
        await speaker.connect()
        for _ in range(4):
            await speaker.say(TEXT)
        await world.pass_time(4)
        assert kept(world) > 3 * len(TEXT)
        speaker.cut()
        rules = world.settings.scheduler
        await world.pass_time(
            rules.delivery.resume_grace_seconds + rules.task_binding.lease_seconds + 5
        )
        assert kept(world) == 0

    play(story)
