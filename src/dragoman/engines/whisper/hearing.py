"""Speech recognition by faster-whisper."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from dragoman.audio import DEFAULT_SAMPLE_RATE, Pcm16
from dragoman.engines.stage import Opening, Stage, StageKind, base_language
from dragoman.engines.whisper.models import (
    ModelOptions,
    requirements,
    service_of,
    whisper_languages,
)
from dragoman.engines.words import heard_before, terms_to_hear
from dragoman.live.protocol import AUTO, Mode, ServiceType
from dragoman.sdk import Answer, AudioWanted, Job, JobFailed, ModelMissing

if TYPE_CHECKING:
    from faster_whisper import WhisperModel

_FULL_SCALE = 32_768.0
_SILENCE = Pcm16(bytes(2 * DEFAULT_SAMPLE_RATE), DEFAULT_SAMPLE_RATE)


class WhisperOptions(ModelOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How speech is recognised."""

    beam_size: Annotated[int, Meta(ge=1)] = 5
    temperatures: list[float] = msgspec.field(default_factory=lambda: [0.0])
    """Tried one after the other while the text looks wrong; each costs the time of another."""
    cpu_threads: Annotated[int, Meta(ge=0)] = 0
    """Of each job on a processor; 0: CTranslate2's own choice."""


class WhisperStage(Stage):
    """Speech to text, in a thread for each slot: CTranslate2 lets go of Python's lock."""

    audio = AudioWanted(sample_rate=DEFAULT_SAMPLE_RATE)

    def __init__(self, options: WhisperOptions, opening: Opening) -> None:
        self._options = options
        self._slots = opening.slots
        self.service = service_of(ServiceType.ASR, options)
        self.languages = options.languages or whisper_languages(options.model)
        self._model: WhisperModel | None = None
        # A job that is cancelled cannot be stopped in its thread. No more than these ever run.
        self._threads = ThreadPoolExecutor(opening.slots, thread_name_prefix="whisper")

    async def warm_up(self) -> None:
        await self._in_a_thread(self._load)

    async def work(self, job: Job) -> Answer:
        return await self._in_a_thread(self._recognise, job)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._model = None

    async def _in_a_thread(self, function: object, *given: object) -> Answer:
        assert callable(function)
        loop = asyncio.get_running_loop()
        answer: Answer = await loop.run_in_executor(self._threads, function, *given)
        return answer

    def _load(self) -> Answer:
        from faster_whisper import WhisperModel

        try:
            self._model = WhisperModel(
                self._options.model,
                device=self._options.device,
                compute_type=self._options.compute_type,
                cpu_threads=self._options.cpu_threads,
                num_workers=self._slots,
                local_files_only=self._options.offline,
            )
        except Exception as error:  # of four libraries, each with errors of its own
            raise ModelMissing(
                self.service.service_id, f"{self._options.model} cannot be loaded: {error}"[:500]
            ) from None
        # The first call of a model takes longer than the others.
        return self._recognise(Job(src_lang="en", tgt_lang="en", audio=_SILENCE.samples))

    def _recognise(self, job: Job) -> Answer:
        import numpy as np

        if self._model is None:
            raise ModelMissing(self.service.service_id, "it is not loaded")
        sound = Pcm16(job.audio or b"", DEFAULT_SAMPLE_RATE).padded(job.padding_ms)
        if not sound.samples:
            return Answer(text_asr="")
        samples = np.frombuffer(sound.samples, dtype="<i2").astype(np.float32) / _FULL_SCALE
        is_open = job.src_lang == AUTO or job.mode is Mode.TWO_WAY_AUTO
        try:
            segments, found = self._model.transcribe(
                samples,
                language=None if is_open else base_language(job.src_lang),
                beam_size=self._options.beam_size,
                temperature=self._options.temperatures,
                initial_prompt=heard_before(job) or None,
                condition_on_previous_text=False,  # what it misheard would come again
                without_timestamps=True,
                hotwords=", ".join(terms_to_hear(job)) or None,
            )
            texts = []
            for segment in segments:
                if job.cancelled:
                    break
                texts.append(segment.text)
        except ValueError as error:  # such as a language that the model does not know
            raise JobFailed("ENGINE_FAILED", f"Whisper refused the job: {error}") from None
        return Answer(
            text_asr="".join(texts).strip(),
            src_lang_detected=found.language if is_open else None,
        )


KIND = StageKind(
    summary="faster-whisper",
    options=WhisperOptions,
    open=WhisperStage,
    requirements=requirements,
)
