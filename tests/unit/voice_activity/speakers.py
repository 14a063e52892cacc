"""Streams of a microphone whose words and pauses are known to the sample."""

from __future__ import annotations

import subprocess
from functools import cache
from random import Random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.audio import Pcm16, read_wav, resampled

RATE = 16_000
WORDS = (
    *("house", "garden", "morning", "window", "because", "travel", "monday", "paper", "seven"),
    *("yellow", "station", "remember", "thank", "telephone", "mountain", "simple", "people"),
    *("water", "question", "bridge", "market", "friend", "language", "doctor", "kitchen"),
)
VOICES = ("en-us", "en-gb", "en-us+f3")

Span = tuple[int, int]
Wave = npt.NDArray[np.float64]


class Labelled(NamedTuple):
    """A stream, and where in it each word and each pause is."""

    sound: Pcm16
    words: list[Span]
    pauses: list[Span]


@cache
def _word(word: str, voice: str) -> Wave:
    done = subprocess.run(
        ["espeak-ng", "-v", voice, "--stdout", word], check=True, capture_output=True
    )
    samples = np.frombuffer(resampled(read_wav(done.stdout), RATE).samples, dtype="<i2")
    loud = np.flatnonzero(np.abs(samples) > 200)
    return samples[loud[0] : loud[-1] + 1].astype(float)


def speaker(
    seed: int,
    phrases: int,
    *,
    noise_db: float | None = None,
    pause_seconds: tuple[float, float] = (0.6, 1.6),
    volume: float = 1.0,
) -> Labelled:
    """Phrases of a few words, and pauses between them; noise as far below the speech as said."""
    random = Random(seed)
    parts: list[Wave] = [np.zeros(RATE)]
    words: list[Span] = []
    pauses: list[Span] = []
    at = RATE

    def add(part: Wave) -> Span:
        nonlocal at
        parts.append(part)
        at += len(part)
        return at - len(part), at

    for _ in range(phrases):
        for number in range(random.randint(2, 6)):
            if number:
                add(np.zeros(int(RATE * random.uniform(0.02, 0.12))))
            words.append(add(volume * _word(random.choice(WORDS), random.choice(VOICES))))
        pauses.append(add(np.zeros(int(RATE * random.uniform(*pause_seconds)))))
    stream = Labelled(as_pcm(np.concatenate(parts)), words, pauses)
    if noise_db is None:
        return stream
    return stream._replace(sound=noisy(stream.sound, stream, noise_db, seed))


def speaker_of_one(word: str, late_samples: int, noise_db: float | None) -> Labelled:
    """One word, a second and a little after the stream begins, and a second after it."""
    wave = _word(word, VOICES[0])
    start = RATE + late_samples
    whole = np.concatenate([np.zeros(start), wave, np.zeros(RATE)])
    stream = Labelled(as_pcm(whole), [(start, start + len(wave))], [])
    if noise_db is None:
        return stream
    return stream._replace(sound=noisy(stream.sound, stream, noise_db, late_samples))


def noisy(sound: Pcm16, said: Labelled, noise_db: float, seed: int) -> Pcm16:
    """The sound, of any rate, with white noise as far below the words said in it."""
    stream = np.frombuffer(sound.samples, dtype="<i2").astype(float)
    scale = sound.sample_rate / RATE
    words = [stream[int(start * scale) : int(end * scale)] for start, end in said.words]
    deviation = np.sqrt(np.mean(np.concatenate(words) ** 2) / 10 ** (noise_db / 10))
    noise = np.random.default_rng(seed).normal(0, deviation, len(stream))
    return as_pcm(stream + noise, sound.sample_rate)


def as_pcm(stream: Wave, sample_rate: int = RATE) -> Pcm16:
    return Pcm16(np.clip(stream, -32768, 32767).astype("<i2").tobytes(), sample_rate)
