from __future__ import annotations

import asyncio
import io
import statistics
import wave
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.engines import PROFILES, Latency, Shape, SimulatedEngine
from dragoman.engines.simulated.hearing import audio_seconds, recognise
from dragoman.engines.simulated.voice import speak
from dragoman.errors import SettingsError
from dragoman.ids import AttemptId
from dragoman.live.protocol import AudioFormat, Mode, Pipeline, ServiceType
from dragoman.sdk import Answer, Job, JobFailed

SPEECH = Pipeline(use_asr=True, use_nmt=True, use_tts=True)
TWO_SECONDS = bytes(range(256)) * 250


async def no_sleep(seconds: float) -> None:
    assert seconds >= 0


def do(job: Job, *, seed: int = 1, profile: str = "steady") -> Answer:
    return asyncio.run(SimulatedEngine(seed, profile, sleep=no_sleep).work(job))


def text_job(text: str = "hello world", **fields: Any) -> Job:
    chosen = {"pipeline": Pipeline(use_nmt=True), **fields}
    return Job(src_lang="en", tgt_lang="es", text=text, **chosen)


def test_a_translation_shows_what_happened_to_it() -> None:
    answer = do(text_job("hello world"))
    assert answer.text_translated == "[es, simulated] hello world"
    assert answer.tts_audio is None
    assert answer.timings is not None
    assert answer.timings.nmt_ms
    assert answer.timings.asr_ms is None


def test_speech_is_heard_as_words_and_answered_with_sound_that_plays() -> None:
    job = Job(src_lang="en", tgt_lang="es", audio=TWO_SECONDS, pipeline=SPEECH)
    answer = do(job)
    assert answer.text_asr is not None
    heard = answer.text_asr.removeprefix("[en, simulated] ")
    assert heard != answer.text_asr
    assert len(heard.split()) == 5
    assert answer.text_translated == f"[es, simulated] {heard}"
    assert answer.extra == {"engine": "simulated"}
    assert answer.tts_format == "wav"
    with wave.open(io.BytesIO(answer.tts_audio or b"")) as sound:
        assert (sound.getsampwidth(), sound.getnchannels()) == (2, 1)
        assert 1 < sound.getnframes() / sound.getframerate() < 5
        assert max(sound.readframes(sound.getnframes())) > 0
    assert 0 < (answer.quality_score or 0) <= 1


def test_the_same_seed_and_attempt_give_the_same_answer_and_another_seed_another() -> None:
    job = text_job(attempt_id=AttemptId("a-1"))
    assert do(job, seed=1) == do(job, seed=1)
    assert do(job, seed=1) != do(job, seed=2)
    assert do(job, seed=1).text_translated == do(job, seed=2).text_translated


def test_semantic_repair_makes_a_sentence() -> None:
    pipeline = Pipeline(use_semantic=True, use_nmt=True)
    assert do(text_job("hello", pipeline=pipeline)).text_translated == "[es, simulated] Hello."


def test_the_language_is_found_where_the_job_leaves_it_open() -> None:
    fields: dict[str, Any] = {"audio": TWO_SECONDS, "pipeline": SPEECH}
    answer = do(Job(src_lang="auto", tgt_lang="es", auto_langs=("en", "zh"), **fields))
    assert answer.src_lang_detected in ("en", "zh")
    two_ways = Job(
        src_lang="auto", tgt_lang="*", mode=Mode.TWO_WAY_AUTO, lang_a="en", lang_b="zh", **fields
    )
    answer = do(two_ways)
    assert {answer.src_lang_detected, answer.tgt_lang} == {"en", "zh"}


@pytest.mark.parametrize(
    ("profile", "rate", "code"),
    [("steady", 0.0, ""), ("flaky", 0.2, "INTERNAL_ERROR"), ("overloaded", 0.3, "NODE_OVERLOADED")],
)
def test_a_profile_fails_as_often_as_it_says(profile: str, rate: float, code: str) -> None:
    engine = SimulatedEngine(7, profile, sleep=no_sleep)
    failures: list[JobFailed] = []

    async def many() -> None:
        for number in range(500):
            try:
                await engine.work(text_job(attempt_id=AttemptId(f"a-{number}")))
            except JobFailed as error:
                failures.append(error)

    asyncio.run(many())
    assert len(failures) / 500 == pytest.approx(rate, abs=0.06)
    assert {failure.error.code for failure in failures} <= {code}


def test_a_slow_profile_takes_longer_and_an_instant_one_no_time() -> None:
    def mean_ms(profile: str) -> float:
        random = Random(3)
        latency = PROFILES[profile].latencies[ServiceType.ASR]
        return statistics.mean(latency.draw_ms(random, units=2.0) for _ in range(300))

    assert mean_ms("instant") == 0
    assert mean_ms("slow") > 3 * mean_ms("steady")


@pytest.mark.parametrize(
    ("shape", "middle"),
    [
        (Shape.FIXED, statistics.median),
        (Shape.LOGNORMAL, statistics.median),
        (Shape.EXPONENTIAL, statistics.mean),
    ],
)
def test_times_lie_around_their_middle_and_grow_with_the_input(shape: Shape, middle: Any) -> None:
    random = Random(11)
    latency = Latency(base_ms=50, per_unit_ms=10, shape=shape)
    draws = [latency.draw_ms(random, units=5) for _ in range(2000)]
    assert middle(draws) == pytest.approx(100, rel=0.1)
    assert min(draws) >= 0


@given(audio=st.binary(max_size=5000), language=st.sampled_from(["en", "es", "zh-hant", "sw"]))
def test_any_audio_is_heard_as_at_least_one_word(audio: bytes, language: str) -> None:
    for audio_format in (None, *AudioFormat):
        seconds = audio_seconds(audio, audio_format)
        assert recognise(audio, seconds, language).strip()


@given(st.text(max_size=200))
def test_any_text_can_be_spoken(text: str) -> None:
    assert speak(text).startswith(b"RIFF")


def test_the_length_of_a_wav_is_read_from_the_wav() -> None:
    spoken = speak("one two three")
    with wave.open(io.BytesIO(spoken)) as sound:
        seconds = sound.getnframes() / sound.getframerate()
    assert audio_seconds(spoken, AudioFormat.WAV) == seconds
    assert audio_seconds(bytes(32_000)) == 1.0


def test_an_unknown_profile_is_refused_with_those_there_are() -> None:
    with pytest.raises(SettingsError, match="no profile `lazy`; known are steady"):
        SimulatedEngine(1, "lazy")
