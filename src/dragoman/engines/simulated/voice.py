"""Simulated speech: one tone for each word, as long as the word, in a WAV that plays."""

from __future__ import annotations

import io
import math
import wave
from array import array
from functools import lru_cache
from hashlib import blake2b

SAMPLE_RATE = 16_000

_PITCHES_HZ = (220.0, 247.5, 293.3, 330.0, 371.3, 440.0, 495.0, 586.7)
_MS_PER_CHARACTER = 45
_LONGEST_WORD_CHARACTERS = 16
_PAUSE_MS = 60
_FADE_MS = 12  # a tone that starts or stops at once clicks
_VOLUME = 0.3
_MOST_WORDS = 400


def speak(text: str) -> bytes:
    """A WAV file (PCM16, mono) that sounds the text, word by word."""
    sound = io.BytesIO()
    with wave.open(sound, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(SAMPLE_RATE)
        out.writeframes(b"".join(_word(word) for word in text.split()[:_MOST_WORDS]))
    return sound.getvalue()


def _word(word: str) -> bytes:
    pitch = blake2b(word.encode(errors="replace"), digest_size=1).digest()[0] % len(_PITCHES_HZ)
    return _tone(pitch, min(len(word), _LONGEST_WORD_CHARACTERS))


@lru_cache(maxsize=len(_PITCHES_HZ) * (_LONGEST_WORD_CHARACTERS + 1))
def _tone(pitch: int, characters: int) -> bytes:
    """There are few different tones, and each takes long to compute: each is made once."""
    count = SAMPLE_RATE * (_PAUSE_MS + _MS_PER_CHARACTER * characters) // 1000
    fade = SAMPLE_RATE * _FADE_MS // 1000
    step = 2 * math.pi * _PITCHES_HZ[pitch] / SAMPLE_RATE
    samples = array(
        "h",
        (
            int(32_767 * _VOLUME * min(1.0, at / fade, (count - at) / fade) * math.sin(step * at))
            for at in range(count)
        ),
    )
    silence = array("h", bytes(2 * SAMPLE_RATE * _PAUSE_MS // 1000))
    return (samples + silence).tobytes()
