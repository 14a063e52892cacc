"""What one tenant may use of a server, and what it is told when it wants more."""

from __future__ import annotations

from tests.simulation.speakers import Speaker, open_speaker
from tests.simulation.world import World, play

from dragoman.errors import RateLimited
from dragoman.live.protocol import Error, JobState, Outcome
from dragoman.testing import JobEnding, SubmittedJob


def assert_refused(errand: SubmittedJob) -> None:
    assert isinstance(errand.refusal, RateLimited)
    assert errand.refusal.retry_after_ms
    assert "max_inflight_per_tenant" in errand.refusal.message


def test_a_tenant_has_room_for_so_many_jobs() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=9, answer=JobEnding.NEVER)
        first, second = await world.submit("1", tenant="red"), await world.submit("2", tenant="red")
        assert_refused(await world.submit("3", tenant="red"))
        other = await world.submit("4", tenant="blue")
        assert (first.refusal, second.refusal, other.refusal) == (None, None, None)

        assert await world.cancel(first)
        assert (await world.submit("5", tenant="red")).refusal is None
        assert_refused(await world.submit("6", tenant="red"))

    play(story, limits__max_inflight_per_tenant=2)


def test_jobs_that_wait_for_a_slot_count_and_batch_ones_too() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=1, answer=JobEnding.NEVER)
        await world.submit("1")
        await world.submit("2", may_wait=True)
        await world.submit("3", batch=True)
        assert world.plane.dispatcher.counts()["waiting"] == 2
        assert_refused(await world.submit("4", may_wait=True))
        assert_refused(await world.submit("5", batch=True))

    play(story, limits__max_inflight_per_tenant=3)


def test_every_kind_of_end_makes_room_again() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=1)
        assert (await (await world.submit("well")).end()).outcome is Outcome.SUCCESS
        node.behaviour.answer = JobEnding.FINAL
        assert (await (await world.submit("badly")).end()).outcome is Outcome.FAILED
        node.behaviour.answer = JobEnding.NEVER
        assert (await world.submit("to nobody", tgt_lang="fr")).refusal is not None
        too_slow = await world.submit("too slow")
        assert_refused(await world.submit("meanwhile"))
        assert (await too_slow.end()).outcome is Outcome.FAILED
        assert (await world.submit("last", may_wait=True)).refusal is None

    play(story, limits__max_inflight_per_tenant=1)


def test_a_repeated_request_finds_its_job_also_at_the_limit() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=9, answer=JobEnding.NEVER)
        first = await world.submit("same")
        again = await world.submit("same")
        assert (again.job_id, again.created, again.refusal) == (first.job_id, False, None)

    play(story, limits__max_inflight_per_tenant=1)


def test_a_refused_request_may_be_made_again_and_its_job_can_be_looked_up() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=9)
        first = await world.submit("1")
        refused = await world.submit("2")
        assert_refused(refused)
        assert refused.refusal is not None
        record = await world.ledger.read(refused.refusal.details["job_id"])
        assert record is not None
        assert (record.state, record.outcome) == (JobState.FINISHED, Outcome.FAILED)
        assert record.error is not None
        assert record.error.code == "RATE_LIMITED"
        await first.end()
        assert (await (await world.submit("2")).end()).outcome is Outcome.SUCCESS

    play(story, limits__max_inflight_per_tenant=1)


def test_an_utterance_too_many_is_announced_and_the_others_are_translated() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=9)
        speaker = await open_speaker(world, tenant_id="red")
        for _ in range(3):
            await speaker.say()
        await speaker.until_ended(3)
        assert [end.utterance_index for end in speaker.ends] == [0, 1, 2]
        assert [result.utterance_index for result in speaker.results] == [0, 1]
        assert [missing.reason for missing in speaker.missing] == ["RATE_LIMITED"]
        (error,) = speaker.told(Error)
        assert (error.code, error.utterance_index) == ("RATE_LIMITED", 2)
        assert error.retry_after_ms
        assert speaker.connected
        await speaker.say()
        await speaker.until_ended(4)
        assert len(speaker.results) == 3

    play(story, limits__max_inflight_per_tenant=2)


def test_sessions_and_requests_of_a_tenant_are_counted_together() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=9, answer=JobEnding.NEVER)
        speaker = await open_speaker(world, tenant_id="red")
        await speaker.say()
        await world.until(lambda: world.plane.dispatcher.counts()["jobs"] == 1)
        assert_refused(await world.submit("1", tenant="red"))

    play(story, limits__max_inflight_per_tenant=1)


def test_no_limit_is_no_limit() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=200, answer=JobEnding.NEVER)
        errands = [await world.submit(str(number)) for number in range(150)]
        assert all(errand.refusal is None for errand in errands)

    play(story)


def test_a_session_too_many_is_told_when_to_come_back_and_one_that_ended_makes_room() -> None:
    async def story(world: World) -> None:
        first = await open_speaker(world, tenant_id="red")
        late = Speaker(world, tenant_id="red")
        assert await late.connect() is None
        assert (late.error_codes, late.close_code) == (["RATE_LIMITED"], 4429)
        assert late.told(Error)[0].retry_after_ms
        assert "red" in late.told(Error)[0].message

        first.cut()
        assert await first.connect() is not None, "a resumed session is not another one"
        first.cut()
        await world.pass_time(100)
        assert await late.connect() is not None, "its client did not come back"

    play(story, limits__sessions_per_tenant=1)
