"""PCM16: the form in which Dragoman handles sound."""

from __future__ import annotations

import msgspec

from dragoman.errors import AudioUnreadable

SAMPLE_BYTES = 2
DEFAULT_SAMPLE_RATE = 16_000


class Pcm16(msgspec.Struct, frozen=True):
    """Signed 16-bit little-endian samples of one channel."""

    samples: bytes
    sample_rate: int

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return len(self.samples) / SAMPLE_BYTES / self.sample_rate

    def padded(self, padding_ms: int) -> Pcm16:
        """The same with silence after it."""
        silence = bytes(SAMPLE_BYTES * (self.sample_rate * padding_ms // 1000))
        return Pcm16(self.samples + silence, self.sample_rate) if silence else self


def from_samples(content: bytes, sample_rate: int | None) -> Pcm16:
    """Bare samples as they came over the wire; half a sample at the end is dropped."""
    if len(content) < SAMPLE_BYTES:
        raise AudioUnreadable("The audio holds no sample.")
    return Pcm16(
        content[: len(content) - len(content) % SAMPLE_BYTES], sample_rate or DEFAULT_SAMPLE_RATE
    )
