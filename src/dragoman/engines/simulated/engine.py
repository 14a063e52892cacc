"""An engine without models: it waits, and gives answers that a person can check by eye."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random

from dragoman.engines.simulated.hearing import audio_seconds, pick, recognise
from dragoman.engines.simulated.profiles import Profile, profile_named
from dragoman.engines.simulated.voice import speak
from dragoman.live.protocol import AUTO, Mode, ServiceType, Timings, Usage
from dragoman.randomness import Randomness
from dragoman.sdk import Answer, Job
from dragoman.term_matching import replaced

LANGUAGES = ("en", "es", "zh")
"""What a simulated node offers when nothing else is asked for; in truth it takes any language."""


SIMULATED: Mapping[str, str] = {"engine": "simulated"}
"""What every result carries in `extra`, so that programs can tell it from a real one."""


def marked(language: str, text: str) -> str:
    """A text that no model wrote, so that people can tell it from a real one."""
    return f"[{language}, simulated] {text}"


class SimulatedEngine:
    """Pretends to recognise, repair, translate and speak; ``Node(..., work=engine.work)``.

    What it answers follows from the input alone. How long it takes and whether it fails is drawn
    from the seed and the attempt, whatever else runs beside it.
    """

    languages = LANGUAGES

    def __init__(
        self,
        seed: int | None = None,
        profile: Profile | str = "steady",
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._randomness = Randomness(seed)
        self._profile = profile_named(profile) if isinstance(profile, str) else profile
        self._sleep = sleep

    async def work(self, job: Job) -> Answer:
        """Do one job, from the first stage it asks for to the last."""
        return await _Run(
            job, self._profile, self._randomness.stream(job.attempt_id or _key(job)), self._sleep
        ).answer()


class _Run:
    """One job on its way through the stages."""

    def __init__(
        self,
        job: Job,
        profile: Profile,
        random: Random,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._job = job
        self._profile = profile
        self._random = random
        self._sleep = sleep
        self._times_ms: dict[str, float] = {}
        self._heard_seconds = 0.0

    async def answer(self) -> Answer:
        job = self._job
        pipeline = job.pipeline
        fails = self._random.random() < self._profile.failure_rate
        src_lang, tgt_lang = _direction(job)
        heard = await self._hear(src_lang) if pipeline.use_asr and job.audio is not None else None
        text = heard if heard is not None else job.text or ""
        if pipeline.use_semantic:
            await self._take_time(ServiceType.SEMANTIC, _words(text))
            text = heard = _repaired(text)
        if fails:
            raise self._profile.failure()
        translated = None
        if pipeline.use_nmt:
            await self._take_time(ServiceType.NMT, _words(text))
            translated = marked(tgt_lang, replaced(text, _forced(job)))
        spoken = None
        if pipeline.use_tts:
            await self._take_time(ServiceType.TTS, _words(text))
            spoken = speak(text)
        if pipeline.use_tone:
            await self._take_time(ServiceType.TONE, _words(text))
        return Answer(
            text_asr=None if heard is None else marked(src_lang, heard),
            text_translated=translated,
            src_lang_detected=src_lang if src_lang != job.src_lang else None,
            tgt_lang=tgt_lang if job.mode is Mode.TWO_WAY_AUTO else None,
            tts_audio=spoken,
            tts_format="wav" if spoken is not None else None,
            timings=Timings(**self._times_ms),
            usage=Usage(
                _words(text),
                _words(translated or ""),
                self._heard_seconds,
                len(text) if pipeline.use_nmt else 0,
            ),
            quality_score=round(self._random.uniform(0.7, 0.99), 3),
            extra=SIMULATED,
        )

    async def _hear(self, src_lang: str) -> str:
        """Recognise, and show the first half of it on the way."""
        audio = self._job.audio or b""
        seconds = audio_seconds(audio, self._job.audio_format, self._job.sample_rate)
        self._heard_seconds = seconds
        text = recognise(audio, seconds, src_lang)
        took_ms = self._draw_ms(ServiceType.ASR, seconds)
        await self._sleep(took_ms / 2000)
        words = text.split()
        if len(words) > 1:
            self._job.partial(marked(src_lang, " ".join(words[: len(words) // 2])))
        await self._sleep(took_ms / 2000)
        self._job.partial(marked(src_lang, text), is_final=True)
        return text

    async def _take_time(self, kind: ServiceType, units: float) -> None:
        took_ms = self._draw_ms(kind, units)
        if took_ms > 0:
            await self._sleep(took_ms / 1000)

    def _draw_ms(self, kind: ServiceType, units: float) -> float:
        took_ms = self._profile.latencies[kind].draw_ms(self._random, units)
        if kind is not ServiceType.TONE:  # the protocol has no place for it
            self._times_ms[f"{kind}_ms"] = round(took_ms, 3)
        return took_ms


def _direction(job: Job) -> tuple[str, str]:
    """Which language is spoken, and which is wanted, where the job leaves it open."""
    if job.mode is Mode.TWO_WAY_AUTO and job.lang_a and job.lang_b:
        said_in = pick(_input(job), (job.lang_a, job.lang_b))
        return said_in, job.lang_b if said_in == job.lang_a else job.lang_a
    if job.src_lang == AUTO and job.auto_langs:
        return pick(_input(job), job.auto_langs), job.tgt_lang
    return job.src_lang, job.tgt_lang


def _repaired(text: str) -> str:
    """The text as a sentence."""
    sentence = text.strip()
    if not sentence or sentence.endswith((".", "!", "?", "。")):
        return sentence
    return f"{sentence[0].upper()}{sentence[1:]}."


def _forced(job: Job) -> dict[str, str]:
    return {one.term: one.translation for one in job.glossary if one.translation is not None}


def _words(text: str) -> int:
    return len(text.split())


def _input(job: Job) -> bytes:
    return job.audio if job.audio is not None else (job.text or "").encode(errors="replace")


def _key(job: Job) -> str:
    """Stands in for the attempt where a job is tried without a scheduler."""
    return f"{job.src_lang}:{job.tgt_lang}:{_input(job).hex()}"
