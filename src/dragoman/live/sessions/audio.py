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

    @property
    def sample_bytes(self) -> int:
        """What belongs together: a sample of every channel; 1 where chunks are never torn."""
        ...

    def begins_anew(self, payload: bytes) -> bool:
        """Whether a chunk begins with a whole sample, whatever came before it."""
        ...

    def torn_bytes(self, payloads: Sequence[bytes]) -> int:
        """How many bytes at the end are of a sample that is not complete."""
        ...

    def duration_ms(self, payload: bytes) -> float:
        """How long a chunk lasts; a whole utterance is measured like a chunk."""
        ...

    def join(self, payloads: Sequence[bytes]) -> bytes:
        """The audio of an utterance, as a node should get it."""
        ...


class Pcm16Meter:
    """Raw 16-bit mono samples: exact."""

    sample_bytes = _SAMPLE_BYTES

    def __init__(self, sample_rate: int) -> None:
        self._bytes_per_second = sample_rate * _SAMPLE_BYTES

    def begins_anew(self, payload: bytes) -> bool:
        return False

    def torn_bytes(self, payloads: Sequence[bytes]) -> int:
        return sum(map(len, payloads)) % _SAMPLE_BYTES

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


class WholeSamples:
    """Joins the chunks of one utterance after another, so that no sample is torn apart.

    A session's audio is one stream, and its chunks may end anywhere. The part of a sample at the
    end of an utterance begins the next one.
    """

    def __init__(self, meter: Meter, half: bytes = b"") -> None:
        self.half = half
        """The beginning of a sample whose end is to come with the next chunk."""
        self._meter = meter
        self._skip_bytes = 0
        """How many bytes to come are the end of a sample whose beginning was lost."""
        self._chunk_bytes = 0
        """The size of the last chunk, which is the best guess at the size of a lost one."""

    def join(self, chunks: Sequence[bytes], gaps: Sequence[tuple[int, int]]) -> bytes:
        """The audio of an utterance, as a node should get it; empty without a whole sample.

        A gap is a place in the chunks and how many are missing there.
        """
        audio = [self.half] if self.half else []
        if gaps or self._skip_bytes:
            self._take_with_gaps(audio, chunks, dict(gaps))
        elif chunks:
            if audio and self._meter.begins_anew(chunks[0]):
                audio.clear()
            audio += chunks
            self._chunk_bytes = len(chunks[-1])
        self.half = self._without_torn(audio)
        return self._meter.join(audio) if audio else b""

    def drop_half(self) -> None:
        """Forget the beginning of a sample: the speaker ended there, and said nothing whole."""
        self.half = b""

    def _take_with_gaps(
        self, audio: list[bytes], chunks: Sequence[bytes], missing_at: dict[int, int]
    ) -> None:
        for place, chunk in enumerate(chunks):
            self._pass_gap(audio, missing_at.get(place, 0))
            self._chunk_bytes = len(chunk)
            if self._meter.begins_anew(chunk):
                self._skip_bytes = 0
            skipped = min(self._skip_bytes, len(chunk))
            self._skip_bytes -= skipped
            if skipped < len(chunk):
                audio.append(chunk[skipped:])
        self._pass_gap(audio, missing_at.get(len(chunks), 0))

    def _pass_gap(self, audio: list[bytes], missing: int) -> None:
        """Begin with a whole sample again after chunks that were lost.

        They are taken to be as long as the one before them, unless that is less than a sample.
        """
        if missing and self._chunk_bytes >= self._meter.sample_bytes:
            lost_bytes = len(self._without_torn(audio)) + missing * self._chunk_bytes
            self._skip_bytes = (self._skip_bytes - lost_bytes) % self._meter.sample_bytes

    def _without_torn(self, audio: list[bytes]) -> bytes:
        """Take the part of a sample off the end."""
        torn_bytes = self._meter.torn_bytes(audio)
        torn = b""
        while torn_bytes:
            last = audio.pop()
            keep_bytes = max(0, len(last) - torn_bytes)
            torn = last[keep_bytes:] + torn
            torn_bytes -= len(last) - keep_bytes
            if keep_bytes:
                audio.append(last[:keep_bytes])
        return torn
