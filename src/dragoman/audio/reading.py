"""Recordings as PCM16: WAV, and Opus in Ogg."""

from __future__ import annotations

import io
import wave
from typing import TYPE_CHECKING

from dragoman.audio.pcm import SAMPLE_BYTES, Pcm16
from dragoman.errors import AudioUnreadable
from dragoman.extras import require_extra

if TYPE_CHECKING:
    import av

LOWEST_SAMPLE_RATE = 4_000
HIGHEST_SAMPLE_RATE = 384_000

MAX_SECONDS = 600.0
"""The longest recording that is decoded: a few bytes of Opus can hold hours of silence."""


def read_wav(content: bytes) -> Pcm16:
    """A WAV file, mixed to one channel; AudioUnreadable if it is none.

    One channel of 16-bit samples is read without the extra `audio`.
    """
    try:
        with wave.open(io.BytesIO(content)) as sound:
            is_plain = (sound.getnchannels(), sound.getsampwidth()) == (1, SAMPLE_BYTES)
            rate = sound.getframerate()
            # A program that writes to a pipe does not know the length, and claims a large one.
            samples = sound.readframes(len(content)) if is_plain else b""
    except (wave.Error, EOFError, RuntimeError, ValueError, ZeroDivisionError) as error:
        if not content.startswith(b"RIFF") or content[8:12] != b"WAVE":
            reason = str(error) or "it is too short"
            raise AudioUnreadable(f"The audio is not a WAV file ({reason}).") from None
        is_plain = False  # such as 24 bits in the extensible form, which FFmpeg knows
        rate, samples = 0, b""
    if not is_plain:
        return _decoded(content, "wav", "A WAV file other than 16-bit PCM of one channel")
    if len(samples) < SAMPLE_BYTES:
        raise AudioUnreadable("The WAV file holds no samples.")
    return Pcm16(samples[: len(samples) - len(samples) % SAMPLE_BYTES], _checked_rate(rate))


def read_opus(content: bytes) -> Pcm16:
    """Opus in Ogg, with its headers; AudioUnreadable if it is not."""
    if not content.startswith(b"OggS"):
        raise AudioUnreadable(
            "The audio is not Opus in Ogg: each utterance has to begin with the Ogg headers."
        )
    return _decoded(content, "ogg", "Audio as Opus")


def _checked_rate(sample_rate: int) -> int:
    """The rate, unless it is absurd: at 1 Hz a small file becomes a huge one when resampled."""
    if not LOWEST_SAMPLE_RATE <= sample_rate <= HIGHEST_SAMPLE_RATE:
        raise AudioUnreadable(f"The recording has the rate {sample_rate} Hz, which speech has not.")
    return sample_rate


def _decoded(content: bytes, container: str, wanted_by: str) -> Pcm16:
    """Any recording that FFmpeg reads, as one channel at its own rate."""
    require_extra("audio", wanted_by, ["av"])
    import av

    try:
        with av.open(io.BytesIO(content), mode="r", format=container) as opened:
            if not opened.streams.audio:
                raise AudioUnreadable("The recording has no sound.")
            return _samples(opened)
    except (av.FFmpegError, ValueError) as error:
        raise AudioUnreadable(f"The recording cannot be decoded ({error}).") from None


def _samples(opened: av.container.InputContainer) -> Pcm16:
    import av

    stream = opened.streams.audio[0]
    codec: av.AudioCodecContext | None = stream.codec_context
    if codec is None:
        raise AudioUnreadable("The recording has a codec that is not known.")
    rate = _checked_rate(codec.sample_rate)
    mixer = av.AudioResampler(format="s16", layout="mono", rate=rate)
    parts: list[bytes] = []
    most_bytes = int(MAX_SECONDS * rate) * SAMPLE_BYTES
    total = 0

    def keep(frame: av.AudioFrame | None) -> None:
        nonlocal total
        for mixed in mixer.resample(frame):
            # The plane may be longer than its samples: FFmpeg aligns it.
            parts.append(bytes(mixed.planes[0])[: mixed.samples * SAMPLE_BYTES])
            total += len(parts[-1])
        if total > most_bytes:
            raise AudioUnreadable(f"The recording is longer than {MAX_SECONDS:.0f} seconds.")

    for frame in opened.decode(stream):
        keep(frame)
    keep(None)
    if not total:
        raise AudioUnreadable("The recording holds no samples.")
    return Pcm16(b"".join(parts), rate)
