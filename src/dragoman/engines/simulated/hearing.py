"""Simulated speech recognition: the same audio always gives the same words."""

from __future__ import annotations

import io
import wave
from collections.abc import Mapping
from hashlib import blake2b
from random import Random

from dragoman.live.protocol import AudioFormat

WORDS_PER_SECOND = 2.5

_PCM16_BYTES_PER_SAMPLE = 2
_DEFAULT_SAMPLE_RATE = 16_000
_OPUS_BYTES_PER_SECOND = 3_000  # speech at 24 kbit/s
_LONGEST_SECONDS = 120.0

_PHRASES: Mapping[str, str] = {
    "en": (
        "we meet when the train leaves at noon please tell me where the market is"
        " thank you for waiting there is time to talk about the new bridge and the old house"
    ),
    "es": (
        "nos vemos cuando el tren sale al mediodía por favor dígame dónde está el mercado"
        " gracias por esperar hay tiempo para hablar del puente nuevo y de la casa vieja"
    ),
    "zh": "我们 见面 火车 中午 出发 请 告诉 我 市场 在 哪里 谢谢 等待 有 时间 谈谈 新 桥 和 老 屋",
}
"""What people say all day; other languages are heard as English."""


def audio_seconds(
    audio: bytes, audio_format: AudioFormat | None = None, sample_rate: int | None = None
) -> float:
    """How long the audio lasts; for opus, which is not decoded here, about how long."""
    if audio_format is AudioFormat.OPUS:
        return len(audio) / _OPUS_BYTES_PER_SECOND
    if audio_format is AudioFormat.WAV:
        try:
            with wave.open(io.BytesIO(audio)) as sound:
                return float(sound.getnframes() / sound.getframerate())
        except (wave.Error, EOFError, RuntimeError, ZeroDivisionError):
            pass  # it says it is WAV and is not: counted as bare samples
    return len(audio) / _PCM16_BYTES_PER_SAMPLE / (sample_rate or _DEFAULT_SAMPLE_RATE)


def recognise(audio: bytes, seconds: float, language: str) -> str:
    """Words that follow from the audio, about as many as one says in that time."""
    random = Random(blake2b(audio, digest_size=16).digest())
    words = _PHRASES.get(language.split("-")[0], _PHRASES["en"]).split()
    count = max(1, round(min(seconds, _LONGEST_SECONDS) * WORDS_PER_SECOND))
    start = random.randrange(len(words))
    return " ".join(words[(start + step) % len(words)] for step in range(count))


def pick(audio_or_text: bytes, choices: tuple[str, ...]) -> str:
    """One of the languages, always the same for the same input."""
    return choices[blake2b(audio_or_text, digest_size=2).digest()[0] % len(choices)]
