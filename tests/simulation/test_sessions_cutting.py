"""Where a speaker's audio is cut, and what becomes of every chunk."""

from __future__ import annotations

import pytest
from tests.simulation.speakers import BYTES_PER_MS, open_speaker
from tests.simulation.world import World, play

from dragoman.live.protocol import (
    AudioChunk,
    Cut,
    Error,
    ServerHeartbeat,
    SessionClose,
    UiEvent,
    UiEventName,
)


def test_every_cut_has_its_name_and_its_padding() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=9)
        speaker = await open_speaker(world)
        await speaker.speak(100, final=True)
        await speaker.speak(100)
        await world.pass_time(1.1)
        for _ in range(4):
            await speaker.speak(400)
        await speaker.send(SessionClose())
        await world.until(lambda: not speaker.connected)
        assert [(assign.cut, assign.padding_ms) for assign in node.assigned] == [
            (Cut.FINAL, 280),
            (Cut.PAUSE, 220),
            (Cut.MAX_DURATION, 220),
            (Cut.CLOSE, 220),
        ]

    play(story, scheduler__web_task_segmentation__max_duration_ms=1200)


def test_the_rest_of_a_sentence_that_was_too_long_is_seen_to_begin() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=9)
        speaker = await open_speaker(world, ui_events=True)
        for _ in range(3):
            await speaker.speak(100)
        await speaker.close()
        inputs = (UiEventName.INPUT_STARTED, UiEventName.INPUT_ENDED)
        seen = [(e.utterance_index, e.event) for e in speaker.told(UiEvent) if e.event in inputs]
        assert seen == [(index, event) for index in (0, 1) for event in inputs]

    play(story, scheduler__web_task_segmentation__max_duration_ms=200)


def test_bytes_cut_as_well_and_no_audio_is_lost() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=9)
        speaker = await open_speaker(world)
        for _ in range(3):
            await speaker.speak(100)
        assert await speaker.close() == 1000
        assert [assign.cut for assign in node.assigned] == [Cut.MAX_BYTES, Cut.CLOSE]
        assert [len(assign.audio or b"") for assign in node.assigned] == [6400, 3200]

    play(story, scheduler__web_task_segmentation__max_bytes=7000)


def test_the_chunk_after_a_pause_begins_an_utterance() -> None:
    """The chunk after a pause once joined the utterance before it."""

    async def story(world: World) -> None:
        node = await world.node("n")
        speaker = await open_speaker(world)
        await speaker.speak(100)
        await world.pass_time(1.5)
        await speaker.speak(200, final=True)
        await speaker.until_ended(2)
        assert [len(assign.audio or b"") for assign in node.assigned] == [
            100 * BYTES_PER_MS,
            200 * BYTES_PER_MS,
        ]

    play(story)


@pytest.mark.parametrize("closes", [False, True])
def test_half_a_sample_is_no_utterance_and_does_not_shift_the_next_one(closes: bool) -> None:
    async def story(world: World) -> None:
        node = await world.node("n")
        speaker = await open_speaker(world)
        await speaker.send(AudioChunk(0, True, b"x"))
        await speaker.send(AudioChunk(1, True, b"abcd"))
        await speaker.until_ended(1)
        await speaker.send(AudioChunk(2, not closes, b"y"))
        assert await speaker.close() == 1000
        assert [assign.audio for assign in node.assigned] == [b"abcd"]
        assert [result.utterance_index for result in speaker.results] == [0]
        ignored = world.metrics.audio_ignored.labels("empty_final")
        assert ignored._value.get() == (1 if closes else 2)

    play(story)


def test_repeated_and_late_chunks_are_ignored_and_counted() -> None:
    async def story(world: World) -> None:
        node = await world.node("n")
        speaker = await open_speaker(world)
        for seq, final in ((0, False), (0, False), (2, True)):
            await speaker.send(AudioChunk(seq, final, bytes([seq])))
        await world.until(lambda: bool(node.assigned))
        await speaker.send(AudioChunk(1, False, b"late"))
        await speaker.send(AudioChunk(3, True))
        await speaker.until_ended(1)
        await speaker.beat()
        await world.until(lambda: bool(speaker.told(ServerHeartbeat)))
        assert node.assigned[0].audio == b"\0\2"
        ignored = world.metrics.audio_ignored
        for reason in ("repeated_seq", "out_of_order", "empty_final"):
            assert ignored.labels(reason)._value.get() == 1, reason

    play(story)


@pytest.mark.parametrize("wild", [2_000, 1_000_000, 2**52])
@pytest.mark.parametrize("final", [False, True])
def test_one_wild_seq_is_refused_and_does_not_mute_the_session(wild: int, final: bool) -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=9)
        speaker = await open_speaker(world)
        await speaker.speak(100)
        await speaker.send(AudioChunk(wild, final, b"xx"))
        await speaker.speak(100, final=True)
        await speaker.until_ended(1)
        await speaker.speak(100, final=True)
        await speaker.until_ended(2)
        (error,) = speaker.told(Error)
        assert error.code == "INVALID_MESSAGE"
        assert f"seq {wild} " in error.message
        assert "1 " in error.message
        assert error.details == {"seq": wild, "expected_seq": 1}
        assert [len(assign.audio or b"") for assign in node.assigned] == [6400, 3200]
        assert speaker.connected

    play(story)


def test_a_first_chunk_with_a_wild_seq_is_refused() -> None:
    async def story(world: World) -> None:
        await world.node("n")
        speaker = await open_speaker(world)
        await speaker.send(AudioChunk(5_000, True, b"xx"))
        await speaker.speak(100, final=True)
        await speaker.until_ended(1)
        assert speaker.error_codes == ["INVALID_MESSAGE"]
        assert len(speaker.results) == 1

    play(story)


@pytest.mark.parametrize("cut", ["final", "pause", "max_duration", "max_bytes", "close", "late"])
def test_samples_that_chunks_tear_apart_are_whole_in_every_utterance(cut: str) -> None:
    said = b"".join(number.to_bytes(2, "little") for number in range(6400))

    async def story(world: World) -> None:
        node = await world.node("n", slots=9)
        speaker = await open_speaker(world)
        pieces = [said[at : at + 1601] for at in range(0, len(said), 1601)]
        for seq, piece in enumerate(pieces):
            ends = cut == "final" and seq in (0, 2, 5)
            await speaker.send(AudioChunk(seq, ends, piece))
            if cut == "pause" and seq in (0, 2, 5):
                await world.pass_time(1.5)
            if cut == "late" and seq == 2:
                # A final waits for its chunk, which comes just in time.
                await speaker.send(AudioChunk(4, True, pieces[4]))
                await world.pass_time(0.15)
        await speaker.close()
        heard = [assign.audio or b"" for assign in node.assigned]
        assert len(heard) > 1 or cut == "close"
        assert all(len(audio) % 2 == 0 for audio in heard)
        assert b"".join(heard) == said

    limits = {
        "max_duration": {"scheduler__web_task_segmentation__max_duration_ms": 120},
        "max_bytes": {"scheduler__web_task_segmentation__max_bytes": 3333},
    }
    play(story, **limits.get(cut, {}))
