"""What no node can carry is said in its place, and the session goes on."""

from __future__ import annotations

from tests.simulation.speakers import open_speaker
from tests.simulation.world import World, play

from dragoman.live.protocol import Error
from dragoman.testing import JobEnding, seconds


def test_a_session_opens_without_any_node() -> None:
    async def story(world: World) -> None:
        speaker = await open_speaker(world)
        assert speaker.connected
        assert speaker.error_codes == []

    play(story)


def test_a_pair_that_no_node_serves_is_refused_in_its_place_and_later_utterances_flow() -> None:
    """A dispatch that found no node once left the session stuck, and its audio gone."""

    async def story(world: World) -> None:
        await world.node("n", service=seconds(2))
        speaker = await open_speaker(world)
        await speaker.say("first")
        await speaker.say("to nobody", tgt_lang="fi")
        await speaker.say("third")
        await speaker.until_ended(3)
        (error,) = speaker.told(Error)
        assert (error.code, error.utterance_index) == ("PAIR_UNSUPPORTED", 1)
        assert error.details is not None
        assert error.details["reasons"] == {"pair_unsupported": 1}
        (missing,) = speaker.missing
        assert (missing.utterance_index, missing.tgt_lang) == (1, "fi")
        assert missing.reason == "PAIR_UNSUPPORTED"
        assert missing.job_id is not None
        assert missing.job_id == error.details["job_id"]
        assert world.plane.dispatcher.explain(missing.job_id) is not None
        assert [result.utterance_index for result in speaker.results] == [0, 2]

    play(story)


def test_one_target_that_no_node_serves_does_not_hold_up_another() -> None:
    async def story(world: World) -> None:
        await world.node("n")
        speaker = await open_speaker(world, tgt_langs=("en", "fi"))
        for _ in range(3):
            await speaker.speak(50, final=True)
        await speaker.until_ended(6)
        assert [result.utterance_index for result in speaker.results] == [0, 1, 2]
        assert [missing.utterance_index for missing in speaker.missing] == [0, 1, 2]
        assert {missing.tgt_lang for missing in speaker.missing} == {"fi"}

    play(story)


def test_spoken_utterances_keep_flowing_while_no_node_serves_them() -> None:
    """The second utterance of a session once never left, nor any after it."""

    async def story(world: World) -> None:
        speaker = await open_speaker(world)
        for _ in range(3):
            await speaker.speak(100)
            await world.pass_time(1.5)
        await speaker.until_ended(3)
        assert [missing.reason for missing in speaker.missing] == ["PAIR_UNSUPPORTED"] * 3
        await world.node("n")
        for _ in range(3):
            await speaker.speak(100)
            await world.pass_time(2.5)
        await speaker.until_ended(6)
        assert [result.utterance_index for result in speaker.results] == [3, 4, 5]

    play(story)


def test_an_utterance_waits_for_a_slot_with_its_audio_and_gets_it() -> None:
    async def story(world: World) -> None:
        await world.node("busy", slots=1, answer=JobEnding.NEVER)
        speaker = await open_speaker(world)
        await speaker.speak(100, final=True)
        await speaker.speak(200, final=True)
        await world.pass_time(4)
        fresh = await world.node("fresh")
        await world.until(lambda: bool(fresh.assigned))
        assert len(fresh.assigned[0].audio or b"") == 6400
        assert fresh.assigned[0].utterance_index == 1
        assert speaker.error_codes == []

    play(story)


def test_a_wait_ends_with_the_pending_time() -> None:
    async def story(world: World) -> None:
        await world.node("busy", slots=1, service=seconds(25))
        speaker = await open_speaker(world)
        started = world.clock.monotonic()
        await speaker.say("taken")
        await speaker.say("waits in vain")
        await world.until(lambda: bool(speaker.error_codes))
        assert speaker.error_codes == ["NO_CAPACITY"]
        assert 10 <= world.clock.monotonic() - started < 10.1
        await speaker.until_ended(2)
        assert [end.utterance_index for end in speaker.ends] == [0, 1], "the order holds"
        assert speaker.missing[0].reason == "NO_CAPACITY"

    play(story)


def test_a_known_node_that_is_away_is_waited_for() -> None:
    async def story(world: World) -> None:
        node = await world.node("n")
        node.restart()
        await world.pass_time(5)
        speaker = await open_speaker(world)
        await speaker.say()
        await world.pass_time(3)
        await node.connect()
        await speaker.until_ended(1)
        assert len(speaker.results) == 1

    play(story)


def test_a_job_that_fails_says_why_and_names_itself() -> None:
    async def story(world: World) -> None:
        await world.node("n", answer=JobEnding.FINAL)
        speaker = await open_speaker(world)
        await speaker.say(request_id="r")
        await speaker.until_ended(1)
        (error,), (missing,) = speaker.told(Error), speaker.missing
        assert (error.code, missing.reason) == ("MODEL_CRASHED", "MODEL_CRASHED")
        assert (error.utterance_index, error.request_id) == (0, "r")
        assert error.details == {"job_id": missing.job_id}
        assert speaker.heard.index(error) < speaker.heard.index(missing)

    play(story)


def test_a_request_id_used_for_something_else_is_a_conflict_in_its_place() -> None:
    async def story(world: World) -> None:
        await world.node("n")
        speaker = await open_speaker(world)
        await speaker.say("one", request_id="r")
        await speaker.say("two", request_id="r")
        await speaker.say("three")
        await speaker.until_ended(3)
        assert [missing.reason for missing in speaker.missing] == ["REQUEST_CONFLICT"]
        assert [result.utterance_index for result in speaker.results] == [0, 2]

    play(story)
