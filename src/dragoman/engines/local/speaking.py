"""Speech by espeak-ng, which knows more than a hundred languages."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence

import msgspec

from dragoman.audio import read_wav, wav_bytes
from dragoman.engines.programs import PROGRAM_FAILED, program_found, run_program
from dragoman.engines.stage import Opening, Requirement, Stage, StageKind, base_language
from dragoman.errors import AudioUnreadable
from dragoman.live.protocol import ServiceType
from dragoman.sdk import Answer, Device, Job, JobFailed, ModelMissing, Service, ServiceStatus

_SERVICE_ID = "espeak-ng"
_PROGRAM = "espeak-ng"
_LISTING_SECONDS = 20.0

_TAG = re.compile(r"[a-z]{2,3}(-[a-z0-9]{1,8})*")
_VERSION = re.compile(r"text-to-speech: (\S+)")


class EspeakOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How text is spoken."""

    words_per_minute: int = 160
    voices: dict[str, str] = {}
    """The voice of a language where it shall not be the usual one: {en = "en-us"}."""
    timeout_seconds: float = 20.0


class EspeakStage(Stage):
    """Text to speech, in the languages that espeak-ng says it has voices for."""

    def __init__(self, options: EspeakOptions, opening: Opening) -> None:
        self._options = options
        self._voices = voices_in(_said("--voices"))
        self.languages = sorted(self._voices)
        version = _VERSION.search(_said("--version"))
        self.service = Service(
            service_id=_SERVICE_ID,
            type=ServiceType.TTS,
            device=Device.CPU,
            status=ServiceStatus.RUNNING,
            version=None if version is None else version[1],
        )

    async def work(self, job: Job) -> Answer:
        voice = self._voice(job.tgt_lang)
        if voice is None:
            raise ModelMissing(_SERVICE_ID, f"there is no voice for {job.tgt_lang}")
        # Text in double brackets would be read as phonemes.
        text = (job.text or "").replace("[[", "[ [")
        output = await run_program(
            [
                *(_PROGRAM, "-v", voice, "-s", str(self._options.words_per_minute)),
                *("-b", "1", "--stdin", "--stdout"),
            ],
            service_id=_SERVICE_ID,
            stdin=text.encode(errors="replace"),
            timeout_seconds=min(self._options.timeout_seconds, max(job.deadline_ms, 1) / 1000),
        )
        try:
            # Into a pipe espeak-ng writes a WAV of unknown length, which not every player takes.
            sound = read_wav(output.stdout)
        except AudioUnreadable as error:
            raise JobFailed(PROGRAM_FAILED, f"espeak-ng wrote no speech: {error.message}") from None
        return Answer(tts_audio=wav_bytes(sound), tts_format="wav")

    def _voice(self, tag: str) -> str | None:
        for known in (tag, base_language(tag)):
            if known in self._options.voices:
                return self._options.voices[known]
        return self._voices.get(tag.lower()) or self._voices.get(base_language(tag))


def voices_in(listing: str) -> dict[str, str]:
    """The voice of each language, from the table that espeak-ng prints.

    A language without its region has the voice of its first region: `en` is `en-gb` or so.
    """
    found: dict[str, str] = {}
    near: dict[str, str] = {}
    for line in listing.splitlines()[1:]:
        columns = line.split()
        if len(columns) < 5:
            continue
        tag = columns[1].lower()
        if not _TAG.fullmatch(tag):
            continue
        found.setdefault(tag, tag)
        near.setdefault(base_language(tag), tag)
        for other in re.findall(r"\(([a-z-]+) \d+\)", line):
            if _TAG.fullmatch(other):
                near.setdefault(other, tag)
    return {**near, **found}


def _said(argument: str) -> str:
    """What espeak-ng says about itself; nothing where it is not installed."""
    try:
        done = subprocess.run(
            [_PROGRAM, argument], capture_output=True, check=False, timeout=_LISTING_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


def _requirements() -> Sequence[Requirement]:
    return [Requirement("the program espeak-ng", program_found(_PROGRAM), "apt install espeak-ng")]


KIND = StageKind(
    summary="espeak-ng (more than 100 languages)",
    options=EspeakOptions,
    open=EspeakStage,
    requirements=_requirements,
)
