"""A client goes on with its session at any instance, whatever became of the one before."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.live.sessions.instances import Client, World, opened, play
from tests.unit.live.sessions.unreliable import forget_everything, go_back, memory_of

from dragoman import errors
from dragoman.live.protocol import MissingResult, TranslationResult


def test_a_client_goes_on_at_another_instance() -> None:
    async def story(world: World) -> None:
        client = await opened(world, "a")
        for number in range(10):
            client.say()
            await asyncio.sleep(0.05)
            if number == 5:
                world.kill("a")
                ack = await client.connect("b")
                assert ack.resumed
        await client.until_ended(10)
        client.check(10)
        assert all(isinstance(end, TranslationResult) for end in client.ends)

    play(story)


def test_the_instance_before_lets_go_and_leaves_the_jobs_alone() -> None:
    async def story(world: World) -> None:
        world.service_seconds = 1.0
        client = await opened(world, "a")
        client.say()
        await world.until(lambda: bool(world["a"].jobs))
        before = client.link
        again = Client(world)
        again.token = client.token
        ack = await again.connect("b")
        assert (ack.resumed, ack.next_utterance_index, ack.instance_id) == (True, 1, "b")
        await world.until(lambda: world.holders(client.session_id) == ["b"], seconds=0.2)
        assert before is not None
        assert before.why == "superseded"
        await again.until_ended(1)
        assert world["b"].started == 0

    play(story)


def test_without_a_note_the_instance_before_finds_out_by_its_next_write() -> None:
    async def story(world: World) -> None:
        world.loses_notes = True
        world.service_seconds = 1.0
        client = await opened(world, "a")
        client.say()
        await world.until(lambda: bool(world["a"].jobs))
        client.leave(noticed=False)
        await client.connect("b")
        assert world.holders(client.session_id) == ["a", "b"]
        await client.until_ended(1)
        await world.until(lambda: world.holders(client.session_id) == ["b"], seconds=1)
        client.check(1)

    play(story)


def test_an_idle_instance_finds_out_when_it_renews_its_records() -> None:
    async def story(world: World) -> None:
        world.loses_notes = True
        client = await opened(world, "a")
        client.leave(noticed=False)
        await client.connect("b")
        await world.until(lambda: world.holders(client.session_id) == ["b"], seconds=15)

    play(story)


def test_what_was_not_acknowledged_is_sent_again_under_the_same_numbers() -> None:
    async def story(world: World) -> None:
        client = await opened(world, "a", "en", "es", "xx", acknowledges=False)
        for _ in range(3):
            client.say()
        heard = list(await client.until_ended(9))
        client.beat(2)
        await asyncio.sleep(0.1)
        world.kill("a")
        client.ends = heard[:2]
        await client.connect("b")
        await client.until_ended(9)
        assert client.ends == heard
        assert {end.tgt_lang for end in heard if isinstance(end, MissingResult)} == {"xx"}

    play(story)


def test_what_the_client_heard_is_acknowledged_by_its_coming_back() -> None:
    async def story(world: World) -> None:
        client = await opened(world, "a", acknowledges=False)
        for _ in range(3):
            client.say()
        await client.until_ended(3)
        client.leave()
        await client.connect("b")
        await world.until(lambda: len(world["b"].released) == 3, seconds=1)
        record = await world.record(client.session_id)
        while record is not None and record.unacknowledged:
            await asyncio.sleep(0.1)
            record = await world.record(client.session_id)
        assert record is not None

    play(story)


@pytest.mark.parametrize("loses_notes", [False, True])
def test_a_client_that_comes_back_to_the_first_instance_finds_what_the_second_did(
    loses_notes: bool,
) -> None:
    async def story(world: World) -> None:
        world.loses_notes = loses_notes
        client = await opened(world, "a")
        for turn, name in enumerate("abababba"):
            if turn:
                client.leave(noticed=False)
                ack = await client.connect(name)
                assert (ack.resumed, ack.instance_id) == (True, name)
            client.say()
            await asyncio.sleep(0.05)
        await client.until_ended(8)
        client.check(8)
        assert client.session is not None
        client.session.close()
        await world.until(lambda: client.link is not None and client.link.why == "finished")
        await asyncio.sleep(30)
        assert await world.record(client.session_id) is None
        assert world.holders(client.session_id) == []
        assert [instance.budget.used for instance in world.instances.values()] == [0, 0]

    play(story)


def test_a_session_that_is_over_takes_its_record_with_it_once_the_server_answers() -> None:
    async def story(world: World) -> None:
        client = await opened(world, "a")
        client.say()
        await client.until_ended(1)
        world["a"].shared.is_away = True
        assert client.session is not None
        client.session.close()
        await asyncio.sleep(5)
        assert await world.record(client.session_id) is not None
        world["a"].shared.is_away = False
        await asyncio.sleep(2)
        assert await world.record(client.session_id) is None

    play(story)


def test_a_client_that_does_not_come_back_leaves_no_record_and_no_jobs() -> None:
    async def story(world: World) -> None:
        world.service_seconds = 100.0
        client = await opened(world, "a")
        client.say()
        await world.until(lambda: bool(world["a"].jobs))
        client.leave()
        await asyncio.sleep(10)
        assert await world.record(client.session_id) is None
        assert world["a"].jobs == {}
        assert world["a"].budget.used == 0

    play(story, scheduler={"delivery": {"resume_grace_seconds": 3}})


def test_jobs_that_another_instance_drives_are_cancelled_with_their_session() -> None:
    async def story(world: World) -> None:
        world.service_seconds = 100.0
        client = await opened(world, "a")
        client.say()
        await world.until(lambda: bool(world["a"].jobs))
        (job_id,) = world["a"].jobs
        await client.connect("b")
        client.leave()
        await asyncio.sleep(10)
        job = await world.ledger.read(job_id)
        assert job is not None
        assert job.outcome is not None
        assert await world.record(client.session_id) is None

    play(story, scheduler={"delivery": {"resume_grace_seconds": 3}})


def test_a_session_that_is_held_elsewhere_is_not_abandoned_with_its_jobs() -> None:
    async def story(world: World) -> None:
        world.loses_notes = True
        world.service_seconds = 8.0
        client = await opened(world, "a")
        client.say()
        await world.until(lambda: bool(world["a"].jobs))
        client.leave()
        await client.connect("b")
        await client.until_ended(1)
        assert isinstance(client.ends[0], TranslationResult)
        assert world.holders(client.session_id) == ["b"]

    play(story, scheduler={"delivery": {"resume_grace_seconds": 3}})


@pytest.mark.parametrize("comes_back_after", [0.1, 0.3, 0.6])
def test_a_client_that_comes_back_just_as_its_grace_ends_is_not_given_up(
    comes_back_after: float,
) -> None:
    async def story(world: World) -> None:
        client = await opened(world, "a")
        client.say()
        await client.until_ended(1)
        client.leave()
        await asyncio.sleep(3)
        # What is asked about it now is answered late.
        world["a"].shared.longest_seconds = 2.0
        await asyncio.sleep(comes_back_after)
        ack = await client.connect("a")
        assert ack.resumed
        world["a"].shared.longest_seconds = 0.0
        client.say()
        await client.until_ended(2)
        client.check(2)

    play(story, scheduler={"delivery": {"resume_grace_seconds": 3}})


def test_a_wrong_secret_opens_a_new_session_at_any_instance() -> None:
    async def story(world: World) -> None:
        client = await opened(world, "a")
        for token in (f"{client.session_id}.{'0' * 64}", "s-zz.secret", "nonsense", "."):
            thief = Client(world)
            thief.token = token
            ack = await thief.connect("b")
            assert not ack.resumed
            assert ack.session_id != client.session_id
        assert world.holders(client.session_id) == ["a"]
        assert client.is_connected

    play(story)


def test_two_connections_that_resume_at_once_leave_one_session() -> None:
    async def story(world: World) -> None:
        world.service_seconds = 0.5
        first = await opened(world, "a")
        first.say()
        await world.until(lambda: bool(world["a"].jobs))
        world["b"].shared.longest_seconds = 0.05
        others = [Client(world) for _ in range(3)]
        for other in others:
            other.token = first.token
        world.kill("a")
        await asyncio.gather(*(other.connect("b") for other in others))
        await asyncio.sleep(2)
        assert world.holders(first.session_id) == ["b"]
        (connected,) = [other for other in others if other.is_connected]
        await connected.until_ended(1)

    play(story)


def test_a_sample_that_is_torn_between_two_instances_is_whole() -> None:
    said = b"".join(number.to_bytes(2, "little") for number in range(3000))

    async def story(world: World) -> None:
        client = await opened(world, "a")
        heard: list[bytes] = []
        for instance in world.instances.values():
            instance.on_start = lambda job: heard.append((job.input and job.input.audio) or b"")
        client.speak(0, said[:1601])
        await client.until_ended(1)
        world.kill("a")
        ack = await client.connect("b")
        assert (ack.resumed, ack.next_chunk_seq) == (True, 1)
        client.speak(1, said[1601:4001])
        client.speak(2, said[4001:])
        await client.until_ended(3)
        assert all(len(audio) % 2 == 0 for audio in heard)
        assert b"".join(heard) == said

    play(story)


def test_chunks_and_utterances_mix_no_more_after_a_resume_than_before() -> None:
    async def story(world: World) -> None:
        client = await opened(world, "a")
        client.say()
        await client.until_ended(1)
        await client.connect("b")
        with pytest.raises(errors.InvalidMessage):
            client.speak(0, b"12")

    play(story)


def test_a_client_is_told_of_utterances_that_are_stored() -> None:
    """What is not stored it says again; here it is known, and passed over."""

    async def story(world: World) -> None:
        client = await opened(world, "a")
        client.say()
        await client.until_ended(1)
        world["a"].shared.after = lambda name: setattr(world["a"].shared, "is_away", False)
        world["a"].shared.longest_seconds = 5.0
        client.say()
        client.leave()
        ack = await client.connect("a")
        assert ack.next_utterance_index in (1, 2)
        world["a"].shared.longest_seconds = 0.0
        await client.until_ended(2)
        client.check(2)
        assert world["a"].started == 2

    play(story)


# --- jobs of other requests ---------------------------------------------------------------------


def test_an_utterance_with_a_request_id_of_the_clients_own_goes_on_elsewhere_too() -> None:
    async def story(world: World) -> None:
        world.service_seconds = 1.0
        client = await opened(world, "a")
        for number in range(3):
            client.say(request_id=f"own-{number}")
        await world.until(lambda: len(world["a"].jobs) == 3)
        await asyncio.sleep(0.2)
        world.kill("a")
        ack = await client.connect("b")
        assert ack.next_utterance_index == 3
        await client.until_ended(3)
        client.check(3)
        assert [end.request_id for end in client.ends if isinstance(end, TranslationResult)] == [
            "own-0",
            "own-1",
            "own-2",
        ]

    play(story)


def test_a_request_that_was_made_before_answers_an_utterance_again() -> None:
    async def story(world: World) -> None:
        client = await opened(world, "a")
        other = await opened(world, "b")
        client.say("hello", request_id="r-1")
        other.say("hello", request_id="r-1")
        client.say("hello", request_id="r-1")
        client.say("other", request_id="r-1")
        await client.until_ended(3)
        await other.until_ended(1)
        client.check(3)
        jobs = {end.job_id for end in (*client.ends[:2], *other.ends)}
        assert len(jobs) == 1
        last = client.ends[2]
        assert isinstance(last, MissingResult)
        assert last.reason == "REQUEST_CONFLICT"

    play(story)


# --- records that are lost ----------------------------------------------------------------------


def test_a_record_that_is_gone_is_written_again_by_the_instance_that_holds_the_client() -> None:
    async def story(world: World) -> None:
        client = await opened(world, "a", acknowledges=False)
        client.say()
        await client.until_ended(1)
        client.say()
        forget_everything(world.ledger)
        await client.until_ended(2)
        client.say()
        heard = list(await client.until_ended(3))
        forget_everything(world.ledger)
        await asyncio.sleep(15)
        assert await world.record(client.session_id) is not None
        world.kill("a")
        ack = await client.connect("b")
        assert (ack.resumed, ack.next_utterance_index) == (True, 3)
        assert [end.delivery_seq for end in heard] == [1, 2, 3]
        client.say()
        await client.until_ended(4)
        client.check(4)

    play(story)


def test_a_client_that_is_away_when_its_record_is_lost_goes_on_at_its_instance() -> None:
    async def story(world: World) -> None:
        client = await opened(world, "a")
        client.say()
        client.leave()
        forget_everything(world.ledger)
        await asyncio.sleep(3)
        ack = await client.connect("a")
        assert ack.resumed
        client.say()
        await client.until_ended(2)
        client.check(2)

    play(story)


def test_an_utterance_whose_job_no_ledger_knows_is_announced_missing() -> None:
    async def story(world: World) -> None:
        world.service_seconds = 100.0
        client = await opened(world, "a")
        client.say()
        await world.until(lambda: bool(world["a"].jobs))
        (job_id,) = world["a"].jobs
        shard = world.ledger._shard(job_id)[0]
        world["a"].jobs.clear()
        shard.jobs.clear()
        shard.requests.clear()
        world.kill("a")
        world.service_seconds = 0.1
        await client.connect("b")
        client.say()
        await client.until_ended(2)
        client.check(2)
        assert isinstance(client.ends[0], MissingResult)
        assert isinstance(client.ends[1], TranslationResult)

    play(story)


def test_a_client_that_heard_more_than_its_record_knows_begins_anew() -> None:
    async def story(world: World) -> None:
        client = await opened(world, "a", "en", "es")
        old = memory_of(world.ledger)
        client.say()
        await client.until_ended(2)
        go_back(world.ledger, old)
        world.kill("a")
        ack = await client.connect("b")
        assert not ack.resumed

    play(story)


@pytest.mark.parametrize("targets", [("en",), ("en", "es")])
def test_an_instance_that_missed_a_move_does_not_pass_its_past_off_as_the_session(
    targets: tuple[str, ...],
) -> None:
    """Its client went on elsewhere, unheard of, and now no record tells."""

    async def story(world: World) -> None:
        world.loses_notes = True
        client = await opened(world, "a", *targets)
        client.say()
        await client.until_ended(len(targets))
        client.leave(noticed=False)
        await client.connect("b")
        for _ in range(3):
            client.say()
        await client.until_ended(4 * len(targets))
        world.kill("b")
        forget_everything(world.ledger)
        ack = await client.connect("a")
        assert ack.resumed == (len(targets) == 1)
        if ack.resumed:
            client.say()
            await client.until_ended(5)
            client.check(5)

    play(story)


# --- draining, tenants --------------------------------------------------------------------------


def test_a_rolling_restart_loses_no_utterance() -> None:
    async def story(world: World) -> None:
        world.service_seconds = 0.4
        client = await opened(world, "a")
        for leaving, staying in (("a", "b"), ("b", "a")):
            for _ in range(5):
                client.say()
                await asyncio.sleep(0.1)
            draining = asyncio.create_task(world[leaving].sessions.drain())
            while not draining.done():
                if not client.is_connected:
                    await client.connect(staying)
                client.say()
                await asyncio.sleep(0.1)
            await draining
            if not client.is_connected:
                await client.connect(staying)
            world.kill(leaving)
            world.begin(leaving)
        said = len(client.said)
        await client.until_ended(said)
        client.check(said)
        assert all(isinstance(end, TranslationResult) for end in client.ends)

    play(story)


def test_a_draining_instance_lets_go_of_a_client_that_is_away() -> None:
    async def story(world: World) -> None:
        world.service_seconds = 1.0
        client = await opened(world, "a")
        client.say()
        await world.until(lambda: bool(world["a"].jobs))
        client.leave()
        await asyncio.wait_for(world["a"].sessions.drain(), 1)
        ack = await client.connect("b")
        assert ack.resumed
        await client.until_ended(1)
        client.check(1)
        with pytest.raises(errors.ServerDraining):
            await Client(world).connect("a")

    play(story)


def test_a_tenants_sessions_are_counted_over_all_instances() -> None:
    async def story(world: World) -> None:
        client = await opened(world, "a")
        await opened(world, "b")
        with pytest.raises(errors.RateLimited):
            await opened(world, "a")
        await client.connect("b")
        with pytest.raises(errors.RateLimited):
            await opened(world, "a")
        assert client.session is not None
        client.session.close()
        await asyncio.sleep(1)
        await opened(world, "a")

    play(story, limits={"sessions_per_tenant": 2})


def test_a_session_that_could_not_be_stored_is_not_opened() -> None:
    async def story(world: World) -> None:
        world["a"].shared.is_away = True
        with pytest.raises(errors.DependencyDown):
            await opened(world, "a")
        assert len(world["a"].sessions) == 0
        world["a"].shared.is_away = False
        await asyncio.sleep(2)
        assert (await world.ledger.size())["sessions"] == 0

    play(story)
