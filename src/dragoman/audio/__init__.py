"""Sound as numbers: reading it, bringing it to another rate, writing it.

Everything here is about PCM16: signed 16-bit little-endian samples of one channel. What needs a
package of the extra `audio` imports it when it is first used.
"""

from dragoman.audio.duration import seconds_of
from dragoman.audio.pcm import DEFAULT_SAMPLE_RATE, SAMPLE_BYTES, Pcm16, from_samples
from dragoman.audio.reading import MAX_SECONDS, read_opus, read_wav
from dragoman.audio.resampling import resampled
from dragoman.audio.writing import wav_bytes

__all__ = [
    "DEFAULT_SAMPLE_RATE",
    "MAX_SECONDS",
    "SAMPLE_BYTES",
    "Pcm16",
    "from_samples",
    "read_opus",
    "read_wav",
    "resampled",
    "seconds_of",
    "wav_bytes",
]
