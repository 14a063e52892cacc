"""Speech through a real server to a real node, and back: everything is what the tools say."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import jiwer
import pytest
from tests.integration.engines.speech import (
    heard_by_itself,
    is_silent,
    spoken,
    translated_by_itself,
)
from tests.integration.serve.server_process import DRAGOMAN, ServerProcess, environment, run

from dragoman.audio import Pcm16, read_wav, resampled, wav_bytes
from dragoman.live.protocol import TranslationResult
from dragoman.sdk import SessionClient, SessionOptions
from dragoman.voice_activity import Cutter, open_detector

SENTENCES = (
    "good morning my friend",
    "the house is very big",
    "we have a lot of time",
    "he was in the city yesterday",
    "the water is cold today",
)
PATIENT = """
[scheduler.job_timeout]
pending_seconds = 110
run_seconds = 60
total_seconds = 120
[scheduler.node_health]
resource_threshold_percent = 0
"""
"""One small node hears all sentences one after the other, on a machine that does other work too."""

PADDING_MS = 280
"""What the scheduler asks a node to add after an utterance that its speaker ended."""


@contextmanager
def local_node(server: ServerProcess, folder: Path) -> Iterator[None]:
    """A node with the engine `local`, ready for jobs inside the block."""
    log = folder / "node.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [DRAGOMAN, "node", "--url", server.url.replace("http", "ws"), "--engine", "local"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment(PYTHONUNBUFFERED="1"),
        )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "ready for jobs" in line:
                break
        else:
            raise AssertionError(f"the node is not ready: {log.read_text()}")
        yield
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 0, log.read_text()
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("fleet")
    settings = folder / "settings.toml"
    settings.write_text(PATIENT)
    server = ServerProcess(folder / "data", "--config", settings)
    with server, local_node(server, folder):
        yield server


def test_every_sentence_comes_back_in_order_as_the_tools_say_it(fleet: ServerProcess) -> None:
    async def conversation() -> list[TranslationResult]:
        async with SessionClient(fleet.url, src_lang="en", tgt_lang="es") as session:
            for sentence in SENTENCES:
                samples = spoken(sentence).samples
                for start in range(0, len(samples), 3_200):
                    await session.feed(samples[start : start + 3_200])
                await session.feed(b"", final=True)
            await session.close()
            results = [result async for result in session.results()]
        assert all(isinstance(result, TranslationResult) for result in results), results
        return [result for result in results if isinstance(result, TranslationResult)]

    results = asyncio.run(conversation())
    assert [result.utterance_index for result in results] == list(range(len(SENTENCES)))
    for sentence, result in zip(SENTENCES, results, strict=True):
        assert result.text_asr == heard_by_itself(spoken(sentence).padded(PADDING_MS))
        assert result.text_asr
        assert result.text_translated == translated_by_itself(result.text_asr)
        assert not is_silent(read_wav(result.tts_audio or b""))
        assert result.timings is not None
        assert result.timings.asr_ms
    differing = [r for r in results if r.text_translated != r.text_asr]
    assert len(differing) == len(SENTENCES)


TWENTY = (
    *SENTENCES,
    "where is the train station",
    "she bought a new car last week",
    "my brother works in a hospital",
    "the children are playing in the garden",
    "it is going to rain this afternoon",
    "can you help me with this problem",
    "the book is on the table",
    "they live in a small town near the river",
    "i would like a cup of coffee",
    "our teacher speaks three languages",
    "the doctor will see you now",
    "please close the window",
    "i do not understand the question",
    "we arrived late because of the snow",
    "thank you very much for your help",
)
PAUSE_SECONDS = 0.9
STOOD_STILL_SECONDS = 0.5
AUTO_PADDING_MS = 220
"""What the scheduler asks a node to add after an utterance that it cut itself."""


@pytest.mark.slow
def test_twenty_sentences_at_the_pace_of_speech_are_cut_heard_translated_and_spoken(
    fleet: ServerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    pause = bytes(int(32_000 * PAUSE_SECONDS))
    stream = pause.join(spoken(sentence).samples for sentence in TWENTY) + pause

    async def conversation() -> tuple[list[TranslationResult], bool]:
        """What was heard, and whether this machine stood still for as long as speakers pause."""
        results: list[TranslationResult] = []
        stood_still = False
        options = SessionOptions(src_lang="en", tgt_lang="es", vad="webrtc")
        async with SessionClient(fleet.url, **options) as session, asyncio.TaskGroup() as both:
            both.create_task(hear(session, results))
            loop = asyncio.get_running_loop()
            began = loop.time()
            for start in range(0, len(stream), 3_200):
                due = began + start / 32_000
                await asyncio.sleep(due - loop.time())
                stood_still |= loop.time() - due > STOOD_STILL_SECONDS
                await session.feed(stream[start : start + 3_200])
            await session.close()
        return results, stood_still

    cuts = cut_by_itself(stream)
    assert abs(len(cuts) - len(TWENTY)) <= 1
    results, stood_still = asyncio.run(conversation())
    if stood_still and len(results) != len(cuts):
        # Then a speaker paused in the middle of a sentence, for all that the server could tell.
        results, _ = asyncio.run(conversation())
    assert [result.utterance_index for result in results] == list(range(len(cuts)))
    for cut, result in zip(cuts, results, strict=True):
        assert result.text_asr == heard_by_itself(cut.padded(AUTO_PADDING_MS))
        assert result.text_asr
        assert result.text_translated == translated_by_itself(result.text_asr)
        assert not is_silent(read_wav(result.tts_audio or b""))
        times = result.scheduling
        assert times.speech_end_to_text_ms is not None
        assert times.speech_end_to_audio_ms is not None
        assert 0 < times.speech_end_to_text_ms < times.speech_end_to_audio_ms
    shown = fleet.get("/metrics").text
    for stage, service in (("text", "pocketsphinx"), ("translation", "apertium"), ("audio", "es")):
        counted = f'scheduler_speech_to_{stage}_seconds_count{{pair="en:es",service="{service}'
        assert counted in shown
    differing = [result for result in results if result.text_translated != result.text_asr]
    assert len(differing) >= 15
    heard = " ".join(result.text_asr or "" for result in results)
    waits = [result.scheduling.speech_end_to_audio_ms or 0 for result in results]
    with capsys.disabled():
        print(  # noqa: T201
            f"\n{len(results)} utterances of {len(TWENTY)} sentences, word error rate "
            f"{jiwer.wer(' '.join(TWENTY), heard):.1%}, from the end of speech to the first audio "
            f"{median(waits):.0f} ms in the median"
        )


def test_a_detector_that_runs_off_the_event_loop_hears_the_same_sentences(
    fleet: ServerProcess,
) -> None:
    pause = bytes(int(32_000 * PAUSE_SECONDS))
    stream = pause + pause.join(spoken(sentence).samples for sentence in SENTENCES[:3])

    async def conversation() -> list[TranslationResult]:
        results: list[TranslationResult] = []
        options = SessionOptions(src_lang="en", tgt_lang="es", vad="silero")
        async with SessionClient(fleet.url, **options) as session, asyncio.TaskGroup() as both:
            both.create_task(hear(session, results))
            await session.feed(stream)
            # The end comes while the detector is at work: all that was said is still heard.
            await session.close()
        return results

    results = asyncio.run(conversation())
    cuts = cut_by_itself(stream, "silero")
    assert len(cuts) == 3
    assert [result.text_asr for result in results] == [
        heard_by_itself(cut.padded(AUTO_PADDING_MS)) for cut in cuts
    ]


async def hear(session: SessionClient, results: list[TranslationResult]) -> None:
    async for result in session.results():
        assert isinstance(result, TranslationResult), result
        results.append(result)


def cut_by_itself(stream: bytes, name: str = "webrtc") -> list[Pcm16]:
    """What voice activity makes of a stream, without Dragoman's server."""
    detector = open_detector(name, 16_000)
    cutter = Cutter(detector.frame_bytes, 16_000)
    found = cutter.take(detector.judge(cutter.add(stream)))
    left = cutter.finish()
    return [Pcm16(one.samples, 16_000) for one in (*found, *([left] if left else []))]


def test_say_answers_with_what_was_really_said(fleet: ServerProcess, tmp_path: Path) -> None:
    recording, answer = tmp_path / "hello.wav", tmp_path / "hola.wav"
    sound = spoken(SENTENCES[0], 22_050)
    recording.write_bytes(wav_bytes(sound))
    flags = ("--from", "en", "--to", "es", "--url", fleet.url, "--out", str(answer))
    code, told, errors = run("say", recording, *flags)
    assert code == 0, errors
    heard = re.search(r"^heard +(.*)$", told, re.MULTILINE)
    said = re.search(r"^es +(.*)$", told, re.MULTILINE)
    assert heard is not None
    assert said is not None
    [cut] = cut_by_itself(resampled(sound, 16_000).samples)
    assert heard[1] == heard_by_itself(cut.padded(AUTO_PADDING_MS))
    assert said[1] == translated_by_itself(heard[1])
    assert "simulated" not in told
    assert not is_silent(read_wav(answer.read_bytes()))
