"""A client that lost its connection goes on where it was."""

from __future__ import annotations

import pytest
from tests.simulation.speakers import Speaker, open_speaker
from tests.simulation.world import World, play

from dragoman.live.protocol import (
    Cut,
    Outcome,
    ServerHeartbeat,
    SessionClose,
    SessionCloseAck,
)
from dragoman.testing import JobEnding, seconds


@pytest.mark.parametrize("drop_after", [0.05, 0.25, 0.45, 1.05, 1.55, 2.05])
@pytest.mark.parametrize("notices_after", [0.0, 0.2, None])
def test_a_drop_at_any_point_loses_and_repeats_nothing(
    drop_after: float, notices_after: float | None
) -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=9, service=seconds(0.7))
        speaker = await open_speaker(world, acknowledges=True)
        started = world.clock.monotonic()
        dropped = False
        for _ in range(12):
            await speaker.speak(100, final=True)
            await world.pass_time(0.2)
            if not dropped and world.clock.monotonic() - started >= drop_after:
                dropped = True
                speaker.cut(server_notices_after=notices_after)
                await world.pass_time(0.5)
                ack = await speaker.come_back()
                assert ack is not None
                assert ack.resumed
        await speaker.until_ended(12)
        assert [end.utterance_index for end in speaker.ends] == list(range(12))
        assert [end.delivery_seq for end in speaker.ends] == list(range(1, 13))
        assert speaker.repeated == []
        assert len(speaker.results) == 12

    play(story)


def test_a_resume_tells_what_to_send_next_and_gives_the_same_numbers() -> None:
    async def story(world: World) -> None:
        await world.node("n", service=seconds(0.1))
        speaker = await open_speaker(world)
        await speaker.speak(100)
        await speaker.speak(100, final=True)
        await speaker.speak(100, final=True)
        await speaker.until_ended(2)
        await speaker.speak(100)
        await world.pass_time(0.1)
        before, speaker.ends = list(speaker.ends), []
        speaker.cut()
        await world.pass_time(5)
        ack = await speaker.connect(last_delivery_seq=1)
        assert ack is not None
        assert (ack.resumed, ack.next_chunk_seq, ack.next_utterance_index) == (True, 3, 2)
        await speaker.until_ended(1)
        assert speaker.ends == before[1:], "what was acknowledged by the resume is not sent again"

    play(story)


def test_a_typist_that_resumes_is_told_its_next_index() -> None:
    async def story(world: World) -> None:
        node = await world.node("n")
        speaker = await open_speaker(world)
        await speaker.say("heard")
        await world.pass_time(0.1)
        speaker.cut()
        await speaker.say("unheard")
        ack = await speaker.come_back()
        assert ack is not None
        assert ack.next_utterance_index == 1
        await speaker.until_ended(2)
        assert [assign.text for assign in node.assigned] == ["heard", "unheard"]

    play(story)


def test_the_pause_clock_stands_while_the_client_is_gone() -> None:
    async def story(world: World) -> None:
        node = await world.node("n")
        speaker = await open_speaker(world)
        await speaker.speak(100)
        await world.pass_time(0.5)
        speaker.cut()
        await world.pass_time(30)
        assert node.assigned == []
        await speaker.come_back()
        await world.pass_time(0.2)
        await speaker.speak(100)
        await world.pass_time(0.9)
        assert node.assigned == []
        await speaker.until_ended(1)
        assert node.assigned[0].cut is Cut.PAUSE
        assert len(node.assigned[0].audio or b"") == 6400, "one utterance, with all of it"

    play(story)


def test_results_that_came_meanwhile_are_sent_at_the_resume() -> None:
    async def story(world: World) -> None:
        await world.node("n", service=seconds(2))
        speaker = await open_speaker(world)
        for _ in range(3):
            await speaker.say()
        await world.pass_time(0.1)
        speaker.cut()
        await world.pass_time(20)
        await speaker.come_back()
        await speaker.until_ended(3)
        assert [end.utterance_index for end in speaker.ends] == [0, 1, 2]
        assert speaker.repeated == []

    play(story)


def test_when_the_grace_ends_the_session_is_closed_and_its_jobs_are_cancelled() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=1, answer=JobEnding.NEVER)
        speaker = await open_speaker(world)
        await speaker.speak(100, final=True)
        await world.until(lambda: bool(node.assigned))
        await speaker.speak(100)
        await world.pass_time(0.1)
        speaker.cut()
        await world.pass_time(9)
        assert len(world.plane.sessions) == 1
        assert len(node.working) == 1
        await world.pass_time(2)
        assert len(world.plane.sessions) == 0
        assert len(node.working) == 0
        record = await world.ledger.read(node.assigned[0].job_id)
        assert record is not None
        assert record.outcome is Outcome.CANCELLED
        assert world.metrics.audio_ignored.labels("session_gone")._value.get() == 1
        ack = await speaker.connect()
        assert ack is not None
        assert (ack.resumed, ack.next_utterance_index) == (False, 0)

    play(story, scheduler__delivery__resume_grace_seconds=10)


def test_a_token_that_is_wrong_or_anothers_opens_a_new_session() -> None:
    async def story(world: World) -> None:
        one, other = await open_speaker(world), await open_speaker(world, tenant_id="else")
        assert one.token is not None
        session_id = one.token.rpartition(".")[0]
        for token in ("nonsense", "", f"{session_id}.{'0' * 64}", one.token[:-1]):
            ack = await Speaker(world).connect(resume_token=token or ".")
            assert ack is not None
            assert not ack.resumed
            assert ack.session_id != session_id
        stolen = await Speaker(world, tenant_id="else").connect(resume_token=one.token)
        assert stolen is not None
        assert not stolen.resumed
        assert one.connected
        assert other.connected

    play(story)


def test_a_resume_supersedes_a_connection_that_still_seems_open() -> None:
    async def story(world: World) -> None:
        await world.node("n", service=seconds(2))
        old = await open_speaker(world)
        await old.say("begun before")
        new = Speaker(world)
        new.token = old.token
        ack = await new.connect()
        assert ack is not None
        assert (ack.resumed, ack.next_utterance_index) == (True, 1)
        await world.until(lambda: not old.connected)
        assert old.close_code == 4409
        await new.until_ended(1)
        assert old.ends == []
        await world.pass_time(120)
        assert len(world.plane.sessions) == 0, "the end of the old one did not touch the new one"

    play(story, scheduler__session__heartbeat_timeout_seconds=40)


def test_the_old_connections_end_does_not_disconnect_the_new_one() -> None:
    async def story(world: World) -> None:
        speaker = await open_speaker(world)
        speaker.cut(server_notices_after=20)
        await speaker.come_back()
        for _ in range(10):
            await world.pass_time(10)
            await speaker.beat()
        await world.pass_time(1)
        assert speaker.connected
        assert len(speaker.told(ServerHeartbeat)) == 10

    play(story)


def test_a_client_that_drops_while_closing_comes_back_for_its_last_results() -> None:
    async def story(world: World) -> None:
        await world.node("n", service=seconds(5))
        speaker = await open_speaker(world)
        await speaker.speak(300)
        await speaker.send(SessionClose())
        await world.pass_time(1)
        speaker.cut()
        await world.pass_time(10)
        await speaker.connect()
        await world.until(lambda: not speaker.connected)
        assert [result.utterance_index for result in speaker.results] == [0]
        assert isinstance(speaker.heard[-1], SessionCloseAck)
        assert speaker.close_code == 1000

    play(story)
