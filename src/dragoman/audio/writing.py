"""PCM16 as a recording that others can play."""

from __future__ import annotations

import io
import wave

from dragoman.audio.pcm import SAMPLE_BYTES, Pcm16


def wav_bytes(sound: Pcm16) -> bytes:
    """The sound as a WAV file."""
    written = io.BytesIO()
    with wave.open(written, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(SAMPLE_BYTES)
        out.setframerate(sound.sample_rate)
        out.writeframes(sound.samples)
    return written.getvalue()
