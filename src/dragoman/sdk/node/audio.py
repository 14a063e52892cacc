"""A job's audio in the form that the node's functions want, whatever the client sent."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta

from dragoman.audio import Pcm16, from_samples, read_opus, read_wav, resampled, wav_bytes
from dragoman.errors import AudioUnreadable, InvalidCapabilitySchema
from dragoman.live.protocol import AudioFormat
from dragoman.sdk.node.job import Answer, Job, JobFailed
from dragoman.sdk.node.work import Work


class AudioWanted(msgspec.Struct, frozen=True):
    """The form in which a node's functions want audio: ``Node(..., audio=AudioWanted())``."""

    audio_format: AudioFormat = AudioFormat.PCM16
    """pcm16 or wav; one channel of 16-bit samples in both."""
    sample_rate: Annotated[int, Meta(ge=1)] | None = 16_000
    """None: whatever rate the client sent; a job's `sample_rate` says which."""

    def __post_init__(self) -> None:
        if self.audio_format not in (AudioFormat.PCM16, AudioFormat.WAV):
            raise InvalidCapabilitySchema(
                f"`audio` asks for {self.audio_format}, which the SDK does not write; "
                "ask for pcm16 or wav"
            )


def with_audio_as(wanted: AudioWanted, work: Work) -> Work:
    """The work, given jobs whose audio is as wanted."""

    async def converting(job: Job) -> Answer:
        if job.audio is None or _fits(job, wanted):
            return await work(job)
        # Off the loop: a second of Opus costs milliseconds.
        return await work(await asyncio.to_thread(converted, job, wanted))

    return converting


def converted(job: Job, wanted: AudioWanted) -> Job:
    """The job with its audio as wanted; a recording that cannot be read fails for good."""
    try:
        sound = _read(job)
    except AudioUnreadable as error:
        raise JobFailed(error.code, error.message, retryable=False) from None
    if wanted.sample_rate is not None:
        sound = resampled(sound, wanted.sample_rate)
    is_wav = wanted.audio_format is AudioFormat.WAV
    return msgspec.structs.replace(
        job,
        audio=wav_bytes(sound) if is_wav else sound.samples,
        audio_format=wanted.audio_format,
        sample_rate=sound.sample_rate,
    )


def _fits(job: Job, wanted: AudioWanted) -> bool:
    """Whether the audio can be passed on as it is, without looking inside it."""
    return (
        wanted.audio_format is AudioFormat.PCM16
        and job.audio_format is AudioFormat.PCM16
        and job.sample_rate is not None
        and wanted.sample_rate in (None, job.sample_rate)
        and len(job.audio or b"") % 2 == 0
    )


def _read(job: Job) -> Pcm16:
    audio = job.audio or b""
    if job.audio_format is AudioFormat.WAV:
        return read_wav(audio)
    if job.audio_format is AudioFormat.OPUS:
        return read_opus(audio)
    return from_samples(audio, job.sample_rate)
