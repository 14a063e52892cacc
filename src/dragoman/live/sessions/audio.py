"""How long a client's audio lasts, and how an utterance's chunks become one piece for a node.

Clients send what they like: a meter measures what it can read and never fails on the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dragoman.live.protocol import AudioFormat
from dragoman.live.sessions.opus import OpusMeter
from dragoman.live.sessions.wav import WavMeter

_SAMPLE_BYTES = 2


class Meter(Protocol):
    """Knows one audio format of one session."""

    def duration_ms(self, payload: bytes) -> float:
        """How long a chunk lasts; a whole utterance is measured like a chunk."""
        ...

    def join(self, payloads: Sequence[bytes]) -> bytes:
        """The audio of an utterance, as a node should get it."""
        ...


class Pcm16Meter:
    """Raw 16-bit mono samples: exact."""

    def __init__(self, sample_rate: int) -> None:
        self._bytes_per_second = sample_rate * _SAMPLE_BYTES

    def duration_ms(self, payload: bytes) -> float:
        return len(payload) * 1000 / self._bytes_per_second

    def join(self, payloads: Sequence[bytes]) -> bytes:
        return b"".join(payloads)


def make_meter(audio_format: AudioFormat, sample_rate: int) -> Meter:
    """A meter for a session that sends this format."""
    match audio_format:
        case AudioFormat.PCM16:
            return Pcm16Meter(sample_rate)
        case AudioFormat.WAV:
            return WavMeter(sample_rate)
        case AudioFormat.OPUS:
            return OpusMeter()
