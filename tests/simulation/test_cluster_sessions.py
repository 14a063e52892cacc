"""A client goes on with its session at any instance, whatever became of the one before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.simulation.cluster_world import ClusterWorld, play_together
from tests.simulation.roaming import (
    Roamer,
    check_nothing_is_left,
    forget_records,
    holders,
    open_roamer,
    records,
)
from tests.simulation.speakers import BYTES_PER_MS

from dragoman.live.protocol import AudioChunk, MissingResult, SessionState
from dragoman.live.sessions.record_writer import ACKNOWLEDGED_SECONDS, FIRST_PAUSE_SECONDS
from dragoman.testing import JobEnding, seconds


@pytest.mark.parametrize("audio", [False, True])
def test_a_client_whose_instance_is_killed_goes_on_at_another(audio: bool) -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=9, service=seconds(0.7))
        speaker = await open_roamer(world, "a", acknowledges=True)
        for number in range(10):
            if audio:
                await speaker.speak(100, final=True)
            else:
                await speaker.say()
            await asyncio.sleep(0.2)
            if number == 5:
                speaker.cut()
                await world.kill("a")
                ack = await speaker.go_on_at("b")
                assert ack.resumed
        await speaker.until_ended(10)
        speaker.check(10)
        assert len(speaker.results) == 10

    play_together(story)


def test_the_instance_before_lets_go_and_leaves_the_jobs_alone() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="a", slots=9, service=seconds(1.0))
        speaker = await open_roamer(world, "a")
        await speaker.say()
        await world.until(lambda: bool(node.working))
        again = Roamer(world, "b")
        again.token = speaker.token
        ack = await again.connect()
        assert ack is not None
        assert (ack.resumed, ack.next_utterance_index, ack.instance_id) == (True, 1, "b")
        await world.until(lambda: holders(world, speaker) == ["b"], seconds=0.2)
        await world.until(lambda: speaker.close_code == 4409, seconds=0.2)
        await again.until_ended(1, seconds=1.1)
        assert len(node.assigned) == 1
        assert again.results[0].job_id == node.assigned[0].job_id

    play_together(story)


def test_without_a_note_the_instance_before_finds_out_by_its_next_write() -> None:
    async def story(world: ClusterWorld) -> None:
        world.hub.faults.lost_notes = 1.0
        node = await world.node("n", at="a", slots=9, service=seconds(1.0))
        speaker = await open_roamer(world, "a")
        await speaker.say()
        await world.until(lambda: bool(node.working))
        await speaker.go_on_at("b")
        assert holders(world, speaker) == ["a", "b"]
        await speaker.until_ended(1, seconds=2)
        await world.until(lambda: holders(world, speaker) == ["b"], seconds=1)
        speaker.check(1)

    play_together(story)


def test_an_idle_instance_finds_out_when_it_renews_its_records() -> None:
    async def story(world: ClusterWorld) -> None:
        world.hub.faults.lost_notes = 1.0
        speaker = await open_roamer(world, "a")
        await speaker.go_on_at("b")
        await world.until(lambda: holders(world, speaker) == ["b"], seconds=15)

    play_together(story)


def test_what_was_not_acknowledged_is_sent_again_under_the_same_numbers() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=9, service=seconds(0.1))
        speaker = await open_roamer(world, "a", tgt_langs=("en", "zh", "fi"))
        for _ in range(3):
            await speaker.say()
        heard = list(await speaker.until_ended(9))
        await speaker.beat(2)
        speaker.cut()
        speaker.ends = heard[:2]
        await world.kill("a")
        await speaker.go_on_at("b")
        await speaker.until_ended(9)
        assert speaker.ends == heard
        assert {end.tgt_lang for end in speaker.missing} == {"fi"}

    play_together(story)


def test_a_result_whose_payload_is_gone_is_announced_under_its_number() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=9, service=seconds(0.1))
        speaker = await open_roamer(world, "a")
        await speaker.say()
        (heard,) = await speaker.until_ended(1)
        speaker.cut()
        speaker.ends.clear()
        assert heard.job_id is not None
        await world.ledger.release([heard.job_id])
        await asyncio.sleep(95)
        await speaker.go_on_at("b")
        (again,) = await speaker.until_ended(1)
        assert isinstance(again, MissingResult)
        assert again.delivery_seq == heard.delivery_seq

    play_together(story, scheduler__delivery__resume_grace_seconds=200)


@pytest.mark.parametrize("lost_notes", [0.0, 1.0])
def test_a_client_that_comes_back_to_the_first_instance_finds_what_the_second_did(
    lost_notes: float,
) -> None:
    async def story(world: ClusterWorld) -> None:
        world.hub.faults.lost_notes = lost_notes
        for name in "ab":
            await world.node(f"n-{name}", at=name, slots=9, service=seconds(0.3))
        speaker = await open_roamer(world, "a", acknowledges=True)
        for turn, instance in enumerate("abababba"):
            if turn:
                speaker.cut(server_notices_after=None)
                ack = await speaker.go_on_at(instance)
                assert (ack.resumed, ack.instance_id) == (True, instance)
            await speaker.say()
            await asyncio.sleep(0.1)
        await speaker.until_ended(8)
        speaker.check(8)
        assert len(speaker.results) == 8
        assert await speaker.close() == 1000
        await asyncio.sleep(700)
        await check_nothing_is_left(world)
        assert records(world) == 0

    play_together(story)


def test_a_session_that_is_held_elsewhere_is_not_abandoned_with_its_jobs() -> None:
    async def story(world: ClusterWorld) -> None:
        world.hub.faults.lost_notes = 1.0
        node = await world.node("n", at="a", slots=9, service=seconds(8.0))
        speaker = await open_roamer(world, "a", acknowledges=True)
        await speaker.say()
        await world.until(lambda: bool(node.working))
        speaker.cut()
        await speaker.go_on_at("b")
        await speaker.until_ended(1)
        assert len(speaker.results) == 1
        assert holders(world, speaker) == ["b"]

    play_together(story, scheduler__delivery__resume_grace_seconds=3)


@pytest.mark.parametrize("comes_back_after", [0.1, 0.3, 0.6])
def test_a_client_that_comes_back_just_as_its_grace_ends_is_not_given_up(
    comes_back_after: float,
) -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="a", slots=9, service=seconds(0.1))
        speaker = await open_roamer(world, "a", acknowledges=True)
        await speaker.say()
        await speaker.until_ended(1)
        speaker.cut()
        await asyncio.sleep(3)
        # What is asked about it now is answered late.
        world["a"].access.block()
        await asyncio.sleep(comes_back_after)
        coming = asyncio.create_task(speaker.go_on_at("a"))
        await asyncio.sleep(0.6)
        world["a"].access.unblock()
        assert (await coming).resumed
        await speaker.say()
        await speaker.until_ended(2)
        speaker.check(2)

    play_together(story, scheduler__delivery__resume_grace_seconds=3)


def test_a_wrong_secret_opens_a_new_session_at_any_instance() -> None:
    async def story(world: ClusterWorld) -> None:
        speaker = await open_roamer(world, "a")
        thief = await open_roamer(world, "b")
        thief.token = f"{speaker.session_id}.{'0' * 64}"
        ack = await thief.go_on_at("b")
        assert not ack.resumed
        assert ack.session_id != speaker.session_id
        assert holders(world, speaker) == ["a"]
        assert speaker.connected

    play_together(story)


def test_a_record_that_is_gone_is_written_again_by_the_instance_that_holds_the_client() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=9, service=seconds(0.5))
        speaker = await open_roamer(world, "a")
        await speaker.say()
        await speaker.until_ended(1)
        await speaker.say()
        forget_records(world)
        await speaker.until_ended(2)
        await speaker.say()
        forget_records(world)
        await world.until(lambda: bool(records(world)), seconds=15)
        heard = list(await speaker.until_ended(3))
        await world.kill("a")
        speaker.cut()
        speaker.ends.clear()
        ack = await speaker.go_on_at("b")
        assert (ack.resumed, ack.next_utterance_index) == (True, 3)
        await speaker.until_ended(3)
        assert speaker.ends == heard

    play_together(story)


@pytest.mark.parametrize("at", ["a", "b"])
def test_when_everything_is_forgotten_open_utterances_are_made_again(at: str) -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at=at, slots=9, service=seconds(1.0))
        speaker = await open_roamer(world, "a", acknowledges=True, tgt_langs=("en", "zh"))
        for _ in range(3):
            await speaker.say()
        await world.until(lambda: len(node.working) == 6)
        world.server.restart_empty()
        await speaker.say()
        await speaker.until_ended(8, seconds=30)
        assert len(speaker.results) == 8
        assert len({assign.job_id for assign in node.assigned}) == 14
        for target in ("en", "zh"):
            ends = [end for end in speaker.ends if end.tgt_lang == target]
            assert [end.utterance_index for end in ends] == [0, 1, 2, 3]
            requests = [end.request_id for end in speaker.results if end.tgt_lang == target]
            assert requests == [f"{speaker.session_id}/{index}" for index in range(4)]

    play_together(story)


def test_the_next_owner_waits_for_the_jobs_that_were_made_again() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", slots=20, service=seconds(8.0))
        speaker = await open_roamer(world, "a", acknowledges=True, tgt_langs=("en", "zh"))
        for _ in range(3):
            await speaker.say()
        await world.until(lambda: len(node.working) == 6)
        world.server.restart_empty()
        await speaker.say()
        await world.until(lambda: len({assign.job_id for assign in node.assigned}) == 14)
        await asyncio.sleep(0.5)
        await world.kill("a")
        speaker.cut()
        assert (await speaker.go_on_at("b")).resumed
        await speaker.until_ended(8, seconds=60)
        assert len(speaker.results) == 8
        assert len({assign.job_id for assign in node.assigned}) == 14

    play_together(story)


def test_a_client_that_is_away_when_its_record_is_lost_goes_on_at_its_instance() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=9, service=seconds(0.5))
        speaker = await open_roamer(world, "a", acknowledges=True)
        await speaker.say()
        speaker.cut()
        forget_records(world)
        await asyncio.sleep(3)
        ack = await speaker.go_on_at("a")
        assert ack.resumed
        await speaker.say()
        await speaker.until_ended(2)
        speaker.check(2)

    play_together(story)


def test_two_connections_that_resume_at_once_leave_one_session() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", slots=9, service=seconds(0.5))
        first = await open_roamer(world, "a", acknowledges=True)
        await first.say()
        await world.until(lambda: bool(node.working))
        world["b"].access.seconds = 0.05
        others = [Roamer(world, "b") for _ in range(3)]
        for other in others:
            other.token = first.token
        await world.kill("a")
        await asyncio.gather(*(other.connect() for other in others))
        await asyncio.sleep(2)
        assert holders(world, first) == ["b"]
        (connected,) = [other for other in others if other.connected]
        await connected.until_ended(1)
        session = world["b"].plane.sessions.find(first.session_id)
        assert session is not None
        assert session.state is SessionState.ACTIVE
        assert [other.close_code for other in others if other is not connected] == [4409, 4409]

    play_together(story)


def test_what_would_be_written_again_is_what_is_stored() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", slots=1, service=seconds(0.3))
        speaker = await open_roamer(world, "a", tgt_langs=("en", "zh", "fi"))
        session: Any = world["a"].plane.sessions.find(speaker.session_id)
        assert session is not None
        for number in range(12):
            await speaker.say()
            await asyncio.sleep(0.25)
            if number == 6:
                await speaker.beat(4)
                node.behaviour.answer = JobEnding.NEVER
                await asyncio.sleep(ACKNOWLEDGED_SECONDS + 0.05)
            assert session.writer.known() == await world.ledger.read_session(speaker.session_id)

    play_together(story)


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("operation", range(1, 20))
def test_an_instance_may_die_with_anything_it_does_for_an_utterance(
    operation: int, before: bool
) -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=9, service=seconds(0.1))
        speaker = await open_roamer(world, "a", acknowledges=True, tgt_langs=("en", "zh"))
        await speaker.say()
        await speaker.until_ended(2)
        world.die_at("a", operation, before=before)
        await speaker.say()
        await asyncio.sleep(1)
        speaker.cut()
        await speaker.go_on_at("b")
        await speaker.say()
        await speaker.until_ended(6)
        for target in ("en", "zh"):
            ends = [end for end in speaker.results if end.tgt_lang == target]
            assert [end.utterance_index for end in ends] == [0, 1, 2]
        assert [end.delivery_seq for end in speaker.ends] == list(range(1, 7))

    play_together(story)


@pytest.mark.parametrize("operation", range(1, 5))
def test_an_utterance_that_no_node_took_is_told_of_by_the_next_owner(operation: int) -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=9, service=seconds(0.1))
        speaker = await open_roamer(world, "a", acknowledges=True, tgt_langs=("en", "zh"))
        door = world["a"].access
        door.cut.add(world.ledger)
        await speaker.say()
        await asyncio.sleep(FIRST_PAUSE_SECONDS - 0.01)
        door.cut.clear()
        world.die_at("a", operation, before=False)
        await asyncio.sleep(1)
        speaker.cut()
        await speaker.go_on_at("b")
        await speaker.say()
        await speaker.until_ended(4)
        for target in ("en", "zh"):
            ends = [end for end in speaker.ends if end.tgt_lang == target]
            assert [end.utterance_index for end in ends] == [0, 1]

    play_together(story)


@pytest.mark.parametrize("operation", range(1, 10))
def test_audio_that_is_cut_otherwise_after_a_crash_is_all_translated(operation: int) -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", slots=9, service=seconds(0.1))
        speaker = await open_roamer(world, "a", acknowledges=True)
        await speaker.speak(300)
        # The first instance hears a pause here; the second hears everything at once.
        await asyncio.sleep(0.999)
        world.die_at("a", operation, before=False)
        await asyncio.sleep(0.051)
        await speaker.speak(200)
        await asyncio.sleep(0.5)
        speaker.cut()
        if "a" in world.instances:
            await world.kill("a")
        await speaker.go_on_at("b")
        await speaker.speak(100, final=True)
        await asyncio.sleep(10)
        heard = {result.job_id for result in speaker.results}
        audio = [assign.audio or b"" for assign in node.assigned if assign.job_id in heard]
        assert sum(map(len, audio)) == 600 * BYTES_PER_MS
        speaker.check(len(speaker.ends))

    play_together(story)


@pytest.mark.parametrize("audio", [False, True])
def test_a_rolling_restart_loses_no_utterance(audio: bool) -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", slots=9, service=seconds(0.4))
        speaker = await open_roamer(world, "a", acknowledges=True)
        said = 0

        async def speak() -> None:
            nonlocal said
            await (speaker.speak(100, final=True) if audio else speaker.say())
            said += 1
            await asyncio.sleep(0.1)

        for leaving, staying in (("a", "b"), ("b", "a")):
            for _ in range(5):
                await speak()
            draining = asyncio.create_task(world.leave(leaving))
            while not draining.done():
                if not speaker.connected:
                    await speaker.go_on_at(staying)
                await speak()
            await world.begin(leaving)
            if not node.connected:
                await world.move("n", staying)
        assert said > 5
        if not speaker.connected:
            await speaker.go_on_at("a")
        await speaker.until_ended(said)
        speaker.check(said)
        assert len(speaker.results) == said

    play_together(story)


def test_a_sample_that_is_torn_between_two_instances_is_whole() -> None:
    """Half of it came to the first instance, and is in no job of its own."""
    said = b"".join(number.to_bytes(2, "little") for number in range(3000))

    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", slots=9, service=seconds(0.1))
        speaker = await open_roamer(world, "a", acknowledges=True)
        await speaker.send(AudioChunk(0, True, said[:1601]))
        await speaker.until_ended(1)
        speaker.cut()
        await world.kill("a")
        ack = await speaker.go_on_at("b")
        assert (ack.resumed, ack.next_chunk_seq) == (True, 1)
        await speaker.send(AudioChunk(1, True, said[1601:4001]))
        await speaker.send(AudioChunk(2, True, said[4001:]))
        await speaker.until_ended(3)
        heard = [assign.audio or b"" for assign in node.assigned]
        assert all(len(audio) % 2 == 0 for audio in heard)
        assert b"".join(heard) == said

    play_together(story)
