"""Sessions with voice activity: a microphone that never stops, cut where its speaker pauses."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import msgspec
import pytest
from tests.simulation.cluster_world import ClusterWorld, play_together
from tests.simulation.roaming import holders, open_roamer
from tests.simulation.speakers import BYTES_PER_MS, Speaker, open_speaker
from tests.simulation.world import World, play
from tests.unit.voice_activity.speakers import speaker as recorded

from dragoman.live.protocol import (
    Cut,
    Error,
    ServerHeartbeat,
    UiEvent,
    UiEventName,
)
from dragoman.testing import seconds
from dragoman.voice_activity import Cutter, open_detector

CHUNK = 100 * BYTES_PER_MS
PHRASES = 4


def pieces(samples: bytes, size: int = CHUNK) -> list[bytes]:
    return [samples[at : at + size] for at in range(0, len(samples), size)]


def phrases_in(samples: bytes) -> list[bytes]:
    """What the detector by itself makes of a stream."""
    detector = open_detector("webrtc", 16_000)
    cutter = Cutter(detector.frame_bytes, 16_000)
    found = cutter.take(detector.judge(cutter.add(samples)))
    left = cutter.finish()
    return [one.samples for one in (*found, *([left] if left is not None else []))]


async def stream(speaker: Speaker, world: World, chunks: Iterable[bytes]) -> None:
    """Send chunks at the pace of speech."""
    for chunk in chunks:
        await speaker.chunk(chunk)
        await world.pass_time(len(chunk) / BYTES_PER_MS / 1000)


@pytest.mark.parametrize("size", [640, CHUNK, 6_001, 60_000])
def test_a_stream_that_never_stops_becomes_one_utterance_for_each_phrase(size: int) -> None:
    samples = recorded(5, PHRASES).sound.samples

    async def story(world: World) -> None:
        node = await world.node("n", slots=9)
        speaker = await open_speaker(world, vad="webrtc")
        await stream(speaker, world, pieces(samples, size))
        assert await speaker.close() == 1000
        assert [assign.audio for assign in node.assigned] == phrases_in(samples)
        assert len(node.assigned) == PHRASES
        assert {assign.cut for assign in node.assigned} <= {Cut.PAUSE, Cut.CLOSE}
        assert [result.utterance_index for result in speaker.results] == list(range(PHRASES))

    play(story)


def test_a_minute_of_silence_stores_nothing_and_need_not_be_sent_again() -> None:
    async def story(world: World) -> None:
        node = await world.node("n")
        speaker = await open_speaker(world, vad="webrtc")
        most = 0
        for _ in range(600):
            await speaker.chunk(bytes(CHUNK))
            await world.pass_time(0.1)
            most = max(most, world.plane.budget.used)
        await speaker.beat()
        await world.until(lambda: bool(speaker.told(ServerHeartbeat)))
        assert speaker.told(ServerHeartbeat)[-1].next_chunk_seq >= 594
        assert most < 32_000, "a second of audio is more than is ever held of silence"
        assert await speaker.close() == 1000
        assert node.assigned == []
        assert world.plane.budget.used == 0

    play(story)


def test_without_a_pause_the_session_still_cuts_at_finals_and_when_no_audio_comes() -> None:
    samples = recorded(5, 1).sound.samples

    async def story(world: World) -> None:
        node = await world.node("n", slots=9)
        speaker = await open_speaker(world, vad="webrtc")
        spoken = pieces(samples[:64_000])
        for chunk in spoken:
            await speaker.chunk(chunk)
        await speaker.chunk(b"", final=True)
        await speaker.until_ended(1)
        for chunk in spoken:
            await speaker.chunk(chunk)
        await speaker.until_ended(2)
        await speaker.chunk(bytes(CHUNK), final=True)
        await speaker.beat()
        await world.until(lambda: bool(speaker.told(ServerHeartbeat)))
        assert [assign.cut for assign in node.assigned] == [Cut.FINAL, Cut.PAUSE]
        assert world.metrics.audio_ignored.labels("empty_final")._value.get() == 1

    play(story)


@pytest.mark.parametrize("size", [CHUNK, 60_000])
def test_a_page_sees_speech_begin_and_end_and_not_silence(size: int) -> None:
    samples = recorded(5, 2).sound.samples

    async def story(world: World) -> None:
        await world.node("n", slots=9)
        speaker = await open_speaker(world, vad="webrtc", ui_events=True)
        await stream(speaker, world, pieces(bytes(64_000) + samples + bytes(64_000), size))
        await speaker.close()
        inputs = (UiEventName.INPUT_STARTED, UiEventName.INPUT_ENDED)
        seen = [(e.utterance_index, e.event) for e in speaker.told(UiEvent) if e.event in inputs]
        assert seen == [(index, event) for index in (0, 1) for event in inputs]

    play(story)


def test_the_settings_turn_it_on_for_sessions_that_do_not_say_and_can_have_it() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=9)
        silent = await open_speaker(world)
        await silent.chunk(bytes(CHUNK), final=True)
        heard = await open_speaker(world, vad="off")
        await heard.chunk(bytes(CHUNK), final=True)
        packed = await open_speaker(world, audio_format="opus")
        await packed.chunk(b"\x08" * 40, final=True)
        odd = await open_speaker(world, sample_rate=44_100)
        await odd.chunk(bytes(CHUNK), final=True)
        for speaker in (heard, packed, odd):
            await speaker.until_ended(1)
        assert await silent.close() == 1000
        assert len(node.assigned) == 3

    play(story, scheduler__web_task_segmentation__vad="webrtc")


def test_a_detector_that_is_not_installed_is_refused_with_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "webrtcvad", None)

    async def story(world: World) -> None:
        speaker = Speaker(world, vad="webrtc")
        assert await speaker.connect() is None
        (error,) = speaker.told(Error)
        assert error.code == "INVALID_MESSAGE"
        assert "pip install 'dragoman[vad]'" in error.message
        assert (error.details or {})["field"] == "vad"

    play(story)


def test_so_many_sessions_may_use_the_costly_detector() -> None:
    async def story(world: World) -> None:
        first = await open_speaker(world, vad="silero")
        second = Speaker(world, vad="silero")
        assert await second.connect() is None
        (error,) = second.told(Error)
        assert error.code == "RATE_LIMITED"
        assert "1 sessions with vad `silero`" in error.message
        await open_speaker(world, vad="webrtc")
        assert await first.close() == 1000
        await open_speaker(world, vad="silero")

    play(story, scheduler__web_task_segmentation__max_silero_sessions=1)


# --- how long a listener waits -------------------------------------------------------------------


def test_times_count_from_the_end_of_speech_and_not_from_the_end_of_the_pause() -> None:
    samples = recorded(5, 2).sound.samples

    async def story(world: World) -> None:
        await world.node("n", slots=9, service=seconds(0.3))
        speaker = await open_speaker(world, vad="webrtc")
        await stream(speaker, world, pieces(samples + bytes(32_000)))
        await speaker.until_ended(2)
        for result in speaker.results:
            times = result.scheduling
            assert times.speech_end_to_result_ms is not None
            # The pause of half a second is part of what a listener waits.
            assert 700 <= times.speech_end_to_result_ms <= 1_100
            assert times.speech_end_to_translation_ms == times.speech_end_to_result_ms
        shown = world.metrics.exposition().decode()
        assert 'scheduler_speech_to_translation_seconds_count{pair="zh:en",service=' in shown

    play(story)


def test_without_voice_activity_speech_ends_with_the_last_audio_and_text_has_no_such_time() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=9, service=seconds(0.3))
        speaker = await open_speaker(world)
        await speaker.speak(100)
        await speaker.until_ended(1)
        [result] = speaker.results
        waited_ms = result.scheduling.speech_end_to_result_ms
        assert waited_ms is not None
        assert 1_300 <= waited_ms <= 1_400, "a pause of a second, and the work"
        writer = await open_speaker(world)
        await writer.say("hello")
        await writer.until_ended(1)
        assert writer.results[0].scheduling.speech_end_to_result_ms is None

    play(story)


# --- one instance after another -----------------------------------------------------------------


@pytest.mark.parametrize("size", [640, CHUNK, 6_001, 60_000])
@pytest.mark.parametrize("where", [0.15, 0.4, 0.62, 0.9])
def test_a_session_goes_on_at_another_instance_and_hears_every_phrase_once(
    size: int, where: float
) -> None:
    samples = recorded(11, PHRASES, pause_seconds=(0.7, 2.5)).sound.samples

    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", slots=9)
        speaker = await open_roamer(world, "a", vad="webrtc", acknowledges=True)
        chunks = pieces(samples, size)
        for number, chunk in enumerate(chunks):
            await speaker.chunk(chunk)
            await world.pass_time(len(chunk) / BYTES_PER_MS / 1000)
            if number == int(where * len(chunks)):
                await speaker.beat(speaker.last_delivery_seq)
                await world.pass_time(0.2)
                speaker.cut()
                await world.kill("a")
                assert (await speaker.go_on_at("b")).resumed
        await speaker.until_ended(PHRASES)
        speaker.check(PHRASES)
        # A detector that begins anew may hear a frame or two otherwise.
        heard = lengths_ms(assign.audio for assign in node.assigned)
        assert heard == pytest.approx(lengths_ms(phrases_in(samples)), abs=100)

    play_together(story)


def lengths_ms(found: Iterable[bytes | None]) -> list[float]:
    return [len(audio or b"") / BYTES_PER_MS for audio in found]


def test_silence_that_was_passed_is_not_asked_for_at_another_instance() -> None:
    """A client forgets what the server says it need not send again."""

    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=9)
        speaker = await open_roamer(world, "a", vad="webrtc")
        for _ in range(3):
            for _ in range(300):
                await speaker.chunk(bytes(CHUNK))
                await world.pass_time(0.1)
            await speaker.beat()
            await world.pass_time(0.2)
        told = speaker.told(ServerHeartbeat)[-1].next_chunk_seq
        assert told >= 590, "the heartbeat before the last had the record told"
        speaker.cut()
        await world.kill("a")
        speaker.turn_to("b")
        ack = await speaker.connect()
        assert ack is not None
        assert ack.resumed
        assert ack.next_chunk_seq >= told

    play_together(story)


def test_an_instance_with_other_settings_cuts_a_session_as_it_began() -> None:
    async def story(world: ClusterWorld) -> None:
        speaker = await open_roamer(world, "a", vad="webrtc", pre_roll_ms=80)
        speaker.cut()
        await world.kill("a")
        await speaker.go_on_at("b")
        session = world["b"].plane.sessions.find(speaker.session_id)
        assert session is not None
        said = msgspec.to_builtins(session.init)
        assert (said["vad"], said["min_speech_ms"], said["pre_roll_ms"]) == ("webrtc", 120, 80)

    play_together(story)


def test_an_instance_without_the_detector_names_the_remedy_and_the_session_goes_on_elsewhere() -> (
    None
):
    samples = recorded(11, PHRASES, pause_seconds=(0.7, 2.5)).sound.samples
    chunks = pieces(samples)

    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", slots=9)
        speaker = await open_roamer(world, "a", vad="webrtc", acknowledges=True)

        async def say(some: list[bytes]) -> None:
            for chunk in some:
                await speaker.chunk(chunk)
                await world.pass_time(len(chunk) / BYTES_PER_MS / 1000)

        half = len(chunks) // 2
        await say(chunks[:half])
        await speaker.beat(speaker.last_delivery_seq)
        await world.pass_time(0.2)
        speaker.cut()
        await world.kill("a")
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "webrtcvad", None)
            for _ in range(3):
                speaker.turn_to("b")
                assert await speaker.come_back() is None
                error = speaker.told(Error)[-1]
                assert error.code == "SCHEDULER_DEPENDENCY_DOWN", "the client tries again"
                assert "pip install 'dragoman[vad]'" in error.message
                assert "resume it at another instance" in error.message
                assert error.retry_after_ms
                assert holders(world, speaker) == []
        assert (await speaker.go_on_at("c")).resumed, "nothing of it was touched"
        await say(chunks[half:])
        await speaker.until_ended(PHRASES)
        speaker.check(PHRASES)
        assert len(node.assigned) == PHRASES

    play_together(story, names=("a", "b", "c"))
