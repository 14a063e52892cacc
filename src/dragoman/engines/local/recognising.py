"""Speech recognition by pocketsphinx, whose English model comes in its wheel."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version

import msgspec

from dragoman.audio import DEFAULT_SAMPLE_RATE, SAMPLE_BYTES, Pcm16
from dragoman.engines.processes import ProcessPool
from dragoman.engines.stage import Opening, Requirement, Stage, StageKind
from dragoman.extras import is_installed
from dragoman.live.protocol import ServiceType
from dragoman.sdk import Answer, AudioWanted, Device, Job, Service, ServiceStatus

_SERVICE_ID = "pocketsphinx"
_PACKAGE = "pocketsphinx"
_SILENT_PEAK = 32
"""No sample of silence is louder: 60 dB below full scale. The softest speech is."""


class PocketsphinxOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How speech is recognised."""

    timeout_seconds: float = 60.0


class PocketsphinxStage(Stage):
    """English speech to text. The decoder holds Python's lock, so it runs in processes."""

    languages = ("en",)
    audio = AudioWanted(sample_rate=DEFAULT_SAMPLE_RATE)

    def __init__(self, options: PocketsphinxOptions, opening: Opening) -> None:
        self.service = Service(
            service_id=_SERVICE_ID,
            type=ServiceType.ASR,
            device=Device.CPU,
            status=ServiceStatus.RUNNING,
            version=_version(),
            model_id="en-us",
        )
        self._timeout_seconds = options.timeout_seconds
        self._pool = ProcessPool(f"{__name__}:open_recogniser", {}, opening.slots, _SERVICE_ID)

    async def warm_up(self) -> None:
        await self._pool.warm_up()

    async def work(self, job: Job) -> Answer:
        sound = Pcm16(job.audio or b"", DEFAULT_SAMPLE_RATE).padded(job.padding_ms)
        limit_seconds = min(self._timeout_seconds, max(job.deadline_ms, 1) / 1000)
        return Answer(text_asr=await self._pool.call(sound.samples, limit_seconds))

    async def close(self) -> None:
        await self._pool.close()


def open_recogniser() -> Callable[[bytes], str]:
    """A function from 16 kHz PCM16 to text; it runs in a process of its own."""
    import pocketsphinx

    decoder = pocketsphinx.Decoder(samprate=DEFAULT_SAMPLE_RATE, loglevel="FATAL")

    def recognise(samples: bytes) -> str:
        if _is_silent(samples):
            return ""
        # The mean of the features is carried from one utterance to the next. Jobs of a node come
        # from many speakers, so each begins as the first did: the same audio always gives the same
        # text. Setting the mean back is not enough, because its weight stays.
        decoder.reinit_feat()
        decoder.start_utt()
        try:
            decoder.process_raw(samples, full_utt=True)
        finally:
            decoder.end_utt()
        found = decoder.hyp()
        return "" if found is None else str(found.hypstr)

    return recognise


def _is_silent(samples: bytes) -> bool:
    """Whether there is nothing to hear. The decoder would hear words all the same."""
    levels = array("h", samples[: len(samples) // SAMPLE_BYTES * SAMPLE_BYTES])
    return not levels or (max(levels) <= _SILENT_PEAK and min(levels) >= -_SILENT_PEAK)


def _version() -> str | None:
    try:
        return version(_PACKAGE)
    except PackageNotFoundError:
        return None


def _requirements() -> Sequence[Requirement]:
    install = "pip install 'dragoman[local]'"
    return [
        Requirement(f"the Python package {module}", is_installed(module), install)
        for module in ("pocketsphinx", "soxr", "av")
    ]


KIND = StageKind(
    summary="pocketsphinx (English)",
    options=PocketsphinxOptions,
    open=PocketsphinxStage,
    requirements=_requirements,
)
