"""Speech whose words are known, and what the tools say by themselves, without Dragoman."""

from __future__ import annotations

import subprocess
from functools import lru_cache

import numpy as np
import pocketsphinx

from dragoman.audio import Pcm16, read_wav, resampled


@lru_cache
def spoken(text: str, sample_rate: int = 16_000) -> Pcm16:
    """What espeak-ng makes of an English text."""
    done = subprocess.run(
        ["espeak-ng", "-v", "en-us", "--stdout", text], check=True, capture_output=True
    )
    return resampled(read_wav(done.stdout), sample_rate)


def heard_by_itself(sound: Pcm16) -> str:
    """What a new pocketsphinx, as it comes, makes of a sound."""
    decoder = pocketsphinx.Decoder(samprate=16_000, loglevel="FATAL")
    decoder.start_utt()
    decoder.process_raw(sound.samples, full_utt=True)
    decoder.end_utt()
    found = decoder.hyp()
    return "" if found is None else str(found.hypstr)


def translated_by_itself(text: str, direction: str = "eng-spa") -> str:
    """What Apertium makes of a text."""
    done = subprocess.run(
        ["apertium", "-u", direction], input=text.encode(), check=True, capture_output=True
    )
    return done.stdout.decode().strip()


def is_silent(sound: Pcm16) -> bool:
    return int(np.abs(np.frombuffer(sound.samples, dtype="<i2")).max(initial=0)) < 1_000
