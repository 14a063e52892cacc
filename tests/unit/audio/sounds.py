"""Sounds whose content is known, and the recordings of them in every form."""

from __future__ import annotations

import io
import wave

import av
import numpy as np
import numpy.typing as npt

from dragoman.audio import Pcm16

Samples = npt.NDArray[np.int16]


def tone(hertz: float, seconds: float, sample_rate: int = 16_000, volume: float = 0.5) -> Pcm16:
    times = np.arange(int(seconds * sample_rate)) / sample_rate
    samples = np.round(32767 * volume * np.sin(2 * np.pi * hertz * times))
    return Pcm16(samples.astype("<i2").tobytes(), sample_rate)


def numbers(sound: Pcm16) -> Samples:
    return np.frombuffer(sound.samples, dtype="<i2")


def loudest_hertz(sound: Pcm16) -> float:
    samples = numbers(sound).astype(float)
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum) * sound.sample_rate / len(samples))


def wav(sound: Pcm16, *, channels: int = 1, width: int = 2) -> bytes:
    """A WAV file of whole samples; every channel holds the same."""
    samples = numbers(sound)
    if width == 1:
        coded = ((samples.astype(np.int32) >> 8) + 128).astype(np.uint8).tobytes()
    elif width == 2:
        coded = samples.tobytes()
    else:
        shift = 8 * (width - 2)
        wide = (samples.astype(np.int64) << shift).astype("<i4")
        coded = wide.view(np.uint8).reshape(-1, 4)[:, :width].tobytes()
    rows = np.frombuffer(coded, dtype=np.uint8).reshape(-1, width)
    written = io.BytesIO()
    with wave.open(written, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(width)
        out.setframerate(sound.sample_rate)
        out.writeframes(np.repeat(rows, channels, axis=0).tobytes())
    return written.getvalue()


def coded(sound: Pcm16, codec: str, container: str) -> bytes:
    """A recording that FFmpeg writes, such as libopus in ogg."""
    written = io.BytesIO()
    with av.open(written, mode="w", format=container) as out:
        stream = out.add_stream(codec, rate=48_000 if codec == "libopus" else sound.sample_rate)
        assert isinstance(stream, av.AudioStream)
        stream.layout = "mono"
        frame = av.AudioFrame.from_ndarray(
            numbers(sound).reshape(1, -1), format="s16", layout="mono"
        )
        frame.sample_rate = sound.sample_rate
        out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return written.getvalue()


def opus(sound: Pcm16) -> bytes:
    return coded(sound, "libopus", "ogg")
