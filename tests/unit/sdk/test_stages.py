from __future__ import annotations

import asyncio

import pytest

from dragoman.clock import ManualClock
from dragoman.errors import InvalidCapabilitySchema
from dragoman.live.protocol import Pipeline, Timings, Usage
from dragoman.sdk import Answer, Job, ModelMissing, WrongAnswer
from dragoman.sdk.node.stages import pipeline_of

ALL = Pipeline(use_asr=True, use_semantic=True, use_nmt=True, use_tts=True, use_tone=True)


class Models:
    """Five services that take 1 to 5 seconds and note what they were given."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.given: list[tuple[str, str | None, bytes | None]] = []

    async def asr(self, job: Job) -> Answer:
        self._note("asr", job, 1)
        return Answer(text_asr="hello", src_lang_detected="en", usage=Usage(3, 1))

    async def semantic(self, job: Job) -> Answer:
        self._note("semantic", job, 2)
        return Answer(text_asr="Hello.", extra={"repaired": True})

    async def nmt(self, job: Job) -> Answer:
        self._note("nmt", job, 3)
        assert (job.src_lang, job.tgt_lang) == ("en", "es")
        return Answer(text_translated="Hola.", usage=Usage(2, 2), extra={"beam": 4})

    async def tts(self, job: Job) -> Answer:
        self._note("tts", job, 4)
        return Answer(tts_audio=b"spoken", tts_format="wav")

    async def tone(self, job: Job) -> Answer:
        self._note("tone", job, 5)
        return Answer(tts_audio=b"in her voice")

    def _note(self, name: str, job: Job, seconds: float) -> None:
        self.given.append((name, job.text, job.audio))
        self.clock.advance(seconds)

    def answer(self, job: Job) -> Answer:
        functions = {
            "tone": self.tone,
            "tts": self.tts,
            "nmt": self.nmt,
            "semantic": self.semantic,
            "asr": self.asr,
        }
        return asyncio.run(pipeline_of(functions, self.clock)(job))


def test_each_service_is_given_what_the_ones_before_it_made() -> None:
    models = Models()
    answer = models.answer(Job(src_lang="auto", tgt_lang="es", audio=b"sound", pipeline=ALL))
    assert models.given == [
        ("asr", None, b"sound"),
        ("semantic", "hello", b"sound"),
        ("nmt", "Hello.", b"sound"),
        ("tts", "Hola.", b"sound"),
        ("tone", "Hola.", b"spoken"),
    ]
    assert answer == Answer(
        text_asr="Hello.",
        text_translated="Hola.",
        src_lang_detected="en",
        tts_audio=b"in her voice",
        tts_format="wav",
        usage=Usage(5, 3),
        extra={"repaired": True, "beam": 4},
        timings=Timings(asr_ms=1000, semantic_ms=2000, nmt_ms=3000, tts_ms=4000),
    )


def test_only_the_services_that_the_job_asks_for_are_used() -> None:
    models = Models()
    pipeline = Pipeline(use_nmt=True)
    answer = models.answer(Job(src_lang="en", tgt_lang="es", text="hi", pipeline=pipeline))
    assert models.given == [("nmt", "hi", None)]
    assert answer.timings == Timings(nmt_ms=3000)


def test_a_service_without_a_function_is_a_missing_model() -> None:
    work = pipeline_of({"nmt": Models().nmt}, ManualClock())
    with pytest.raises(ModelMissing, match="asr cannot be used"):
        asyncio.run(work(Job(src_lang="en", tgt_lang="es", audio=b"", pipeline=ALL)))


def test_a_service_that_returns_something_else_is_named() -> None:
    async def nmt(job: Job) -> Answer:
        return "hola"  # type: ignore[return-value]

    work = pipeline_of({"nmt": nmt}, ManualClock())
    job = Job(src_lang="en", tgt_lang="es", text="", pipeline=Pipeline(use_nmt=True))
    with pytest.raises(WrongAnswer, match="nmt returned str 'hola'; it must return an Answer"):
        asyncio.run(work(job))


def test_a_service_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidCapabilitySchema, match="mnt, which is not a service"):
        pipeline_of({"mnt": Models().nmt}, ManualClock())
