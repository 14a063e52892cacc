"""Sound at another rate."""

from __future__ import annotations

from dragoman.audio.pcm import Pcm16
from dragoman.extras import require_extra


def resampled(sound: Pcm16, sample_rate: int) -> Pcm16:
    """The same sound at another rate, by soxr; nothing is done when it has that rate."""
    if sound.sample_rate == sample_rate:
        return sound
    require_extra("audio", f"Audio at {sound.sample_rate} Hz on a node that wants {sample_rate} Hz")
    import numpy as np
    import soxr

    samples = np.frombuffer(sound.samples, dtype="<i2")
    changed = soxr.resample(samples, sound.sample_rate, sample_rate)
    return Pcm16(changed.astype("<i2", copy=False).tobytes(), sample_rate)
