"""A stage that runs a program for each job.

The program is given its input as a file, by a placeholder in the command, or else by standard
input. It gives its output as a file, by another placeholder, or else by standard output.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import msgspec
from msgspec import Meta

from dragoman.audio import Pcm16, from_samples, read_wav, wav_bytes
from dragoman.engines.programs import PROGRAM_FAILED, program_found, run_program
from dragoman.engines.stage import Opening, Stage
from dragoman.errors import AudioUnreadable, SettingsError
from dragoman.live.protocol import ServiceType
from dragoman.sdk import (
    Answer,
    AudioFormat,
    AudioWanted,
    Device,
    Job,
    JobFailed,
    ModelMissing,
    Service,
    ServiceStatus,
)

PLACES: Mapping[str, str] = {
    "input": "a file with the input: a WAV file for asr, UTF-8 text for the others",
    "output": "a file that the program writes: text, or a WAV file for tts",
    "src_lang": "the language that comes in",
    "tgt_lang": "the language that is wanted",
    "lang": "the language of the stage's own work: what asr hears, what tts speaks",
    "hints": "a JSON file with what was said before and the words of the tenant's glossary",
}
"""What a command may hold in braces."""

_PLACE = re.compile(r"\{(\w+)\}")
_MAX_TEXT_CHARACTERS = 100_000


class CommandOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which program, and how it is called."""

    command: Annotated[list[str], Meta(min_length=1)]
    """The program and its arguments. No shell is involved."""
    languages: list[str] = []
    """The languages that it knows; without them the node's owner names them."""
    service_id: str | None = None
    """How the scheduler knows it; the program's name, unless said otherwise."""
    version: str | None = None
    """Of the service: jobs and canaries ask for it as in `whisper@2`."""
    model_id: str | None = None
    device: Device = Device.CPU
    sample_rate: Annotated[int, Meta(ge=4_000, le=192_000)] = 16_000
    """Of the audio that asr is given, and of bare samples that tts writes."""
    raw: bool = False
    """Whether tts writes bare PCM16 samples of one channel instead of a WAV file."""
    timeout_seconds: Annotated[float, Meta(gt=0)] = 30.0
    environment: dict[str, str] = {}


def open_command(kind: ServiceType) -> Callable[[CommandOptions, Opening], Stage]:
    """How a stage of this kind is made."""

    def opened(options: CommandOptions, _: Opening) -> Stage:
        return CommandStage(kind, options)

    return opened


class CommandStage(Stage):
    """Runs the program once for each job."""

    def __init__(self, kind: ServiceType, options: CommandOptions) -> None:
        for place in (found for word in options.command for found in _PLACE.findall(word)):
            if place not in PLACES:
                raise SettingsError(
                    f"`stages.{kind}.command` holds {{{place}}}, which is no placeholder; "
                    f"there are {', '.join(f'{{{name}}}' for name in PLACES)}"
                )
        self._options = options
        self._takes_file = any("{input}" in word for word in options.command)
        self._gives_file = any("{output}" in word for word in options.command)
        self._takes_hints = any("{hints}" in word for word in options.command)
        self.languages = options.languages or None
        if kind is ServiceType.ASR:
            self.audio = AudioWanted(AudioFormat.WAV, options.sample_rate)
        name = options.service_id or f"{Path(options.command[0]).name}-{kind}"
        self.service = Service(
            service_id=re.sub(r"[\s{}]", "_", name),
            type=kind,
            device=options.device,
            status=ServiceStatus.RUNNING,
            version=options.version,
            model_id=options.model_id,
        )

    async def warm_up(self) -> None:
        program = self._options.command[0]
        if not program_found(program):
            raise ModelMissing(
                self.service.service_id, f"there is no program {program} that can be run"
            )

    async def work(self, job: Job) -> Answer:
        # Files of one job are gone when it ends, however it does.
        folder = await asyncio.to_thread(TemporaryDirectory, prefix="dragoman-command-")
        try:
            return await self._run(job, Path(folder.name))
        finally:
            await asyncio.to_thread(folder.cleanup)

    async def _run(self, job: Job, folder: Path) -> Answer:
        hears = self.service.type is ServiceType.ASR
        given = _recording(job) if hears else (job.text or "").encode(errors="replace")
        input_file = folder / ("input.wav" if hears else "input.txt")
        output_file = folder / ("output.wav" if self._speaks else "output.txt")
        if self._takes_file:
            await asyncio.to_thread(input_file.write_bytes, given)
        hints_file = folder / "hints.json"
        if self._takes_hints:
            await asyncio.to_thread(hints_file.write_bytes, _hints(job))
        values = {
            "hints": str(hints_file),
            "input": str(input_file),
            "output": str(output_file),
            "src_lang": job.src_lang,
            "tgt_lang": job.tgt_lang,
            "lang": job.tgt_lang if self._speaks else job.src_lang,
        }
        output = await run_program(
            [_PLACE.sub(lambda found: values[found[1]], word) for word in self._options.command],
            service_id=self.service.service_id,
            stdin=None if self._takes_file else given,
            timeout_seconds=min(self._options.timeout_seconds, max(job.deadline_ms, 1) / 1000),
            environment=self._options.environment,
        )
        content = output.stdout
        if self._gives_file:
            content = await asyncio.to_thread(self._written, output_file)
        return self._answer(content)

    @property
    def _speaks(self) -> bool:
        return self.service.type is ServiceType.TTS

    def _written(self, file: Path) -> bytes:
        try:
            return file.read_bytes()
        except OSError as error:
            raise self._failed(f"ended well but wrote no output file ({error.strerror})") from None

    def _answer(self, content: bytes) -> Answer:
        if self._speaks:
            return Answer(tts_audio=wav_bytes(self._sound(content)), tts_format="wav")
        try:
            text = content.decode().strip()
        except UnicodeDecodeError as error:
            raise self._failed(f"wrote what is not UTF-8 ({error.reason})") from None
        if len(text) > _MAX_TEXT_CHARACTERS or any(c < " " and c not in "\t\r\n" for c in text):
            raise self._failed("wrote what is not text")
        if self.service.type is ServiceType.NMT:
            return Answer(text_translated=text)
        return Answer(text_asr=text)

    def _sound(self, content: bytes) -> Pcm16:
        try:
            if self._options.raw:
                return from_samples(content, self._options.sample_rate)
            return read_wav(content)
        except AudioUnreadable as error:
            raise self._failed(f"wrote no speech: {error.message.rstrip('.')}") from None

    def _failed(self, what: str) -> JobFailed:
        return JobFailed(PROGRAM_FAILED, f"{self._options.command[0]} {what}.")


def _hints(job: Job) -> bytes:
    """What a program may know beside its input."""
    return msgspec.json.encode({"context": job.context, "glossary": job.glossary})


def _recording(job: Job) -> bytes:
    """The job's audio, a WAV file by now, with the silence that keeps its last word whole."""
    if not job.padding_ms:
        return job.audio or b""
    try:
        return wav_bytes(read_wav(job.audio or b"").padded(job.padding_ms))
    except AudioUnreadable as error:
        raise JobFailed(error.code, error.message, retryable=False) from None
