"""WAV audio: a header once, or in every chunk, and samples after it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

_RIFF_BYTES = 12
_PART_HEADER = struct.Struct("<4sI")
_FORMAT = struct.Struct("<HHIIHH")
_PCM = 1

_MOST_PARTS = 64
"""A header with more parts before its data is none: a hostile one would cost time to walk."""

_LARGEST_FORMAT_BYTES = 256
"""A format is repeated before each utterance; the longest in use has about 50 bytes."""

_UNKNOWN_SIZES = (0, 0xFFFFFFFF)
"""What a program writes as the size of data that it is still recording."""


class Wav(NamedTuple):
    """A chunk that has a header of its own: its format part and where its samples are."""

    format: bytes
    data_start: int
    data_end: int
    is_complete: bool
    """All the samples that the header announces are there."""


def read_wav(payload: bytes) -> Wav | None:
    """The header a chunk begins with, or None when it has none that can be used."""
    if payload[:4] != b"RIFF" or payload[8:_RIFF_BYTES] != b"WAVE":
        return None
    layout = b""
    position = _RIFF_BYTES
    for _ in range(_MOST_PARTS):
        start = position + _PART_HEADER.size
        if start > len(payload):
            return None
        name, size = _PART_HEADER.unpack_from(payload, position)
        if name == b"data":
            known = size not in _UNKNOWN_SIZES
            end = min(start + size, len(payload)) if known else len(payload)
            complete = known and start + size <= len(payload)
            return Wav(layout, start, end, complete) if layout else None
        if name == b"fmt ":
            layout = payload[start : start + size]
            if not _is_usable(layout, size):
                return None
        position = start + size + size % 2
    return None


def _is_usable(layout: bytes, size: int) -> bool:
    whole = len(layout) == size and _FORMAT.size <= size <= _LARGEST_FORMAT_BYTES
    return whole and _bytes_per_second(layout) > 0


def _bytes_per_second(layout: bytes) -> int:
    rate: int = _FORMAT.unpack_from(layout)[3]
    return rate


def _frame_bytes(layout: bytes) -> int:
    """The size of one sample of all channels; a header that does not say so tears nothing."""
    frame_bytes: int = _FORMAT.unpack_from(layout)[4]
    return max(1, frame_bytes)


def _part(name: bytes, content: bytes) -> bytes:
    """A named part of the file; parts begin at even places."""
    return _PART_HEADER.pack(name, len(content)) + content + b"\0" * (len(content) % 2)


class WavMeter:
    """WAV audio: exact.

    The first header seen says what chunks without one hold; until then they are taken for 16-bit
    mono samples. A chunk with its own header is measured by that.
    """

    ms_per_byte = 0.0

    def __init__(self, sample_rate: int) -> None:
        self._layout = _FORMAT.pack(_PCM, 1, sample_rate, sample_rate * 2, 2, 16)
        self._bytes_per_second = sample_rate * 2
        self._has_header = False

    @property
    def sample_bytes(self) -> int:
        return _frame_bytes(self._layout)

    def begins_anew(self, payload: bytes) -> bool:
        return read_wav(payload) is not None

    def torn_bytes(self, payloads: Sequence[bytes]) -> int:
        size_bytes = 0
        for payload in reversed(payloads):
            wav = read_wav(payload)
            if wav is None:
                size_bytes += len(payload)
                continue
            if wav.data_end < len(payload) or (wav.is_complete and not size_bytes):
                return 0  # a whole file, torn or not: nothing of it is to come
            return (wav.data_end - wav.data_start + size_bytes) % _frame_bytes(wav.format)
        return size_bytes % self.sample_bytes

    def duration_ms(self, payload: bytes) -> float:
        wav = read_wav(payload)
        if wav is None:
            return len(payload) * 1000 / self._bytes_per_second
        if not self._has_header:
            self._has_header = True
            self._layout = wav.format
            self._bytes_per_second = _bytes_per_second(wav.format)
        return (wav.data_end - wav.data_start) * 1000 / _bytes_per_second(wav.format)

    def join(self, payloads: Sequence[bytes]) -> bytes:
        """One valid file with the samples of all chunks and a header for exactly these."""
        found = [read_wav(payload) for payload in payloads]
        data = b"".join(
            payload if wav is None else payload[wav.data_start : wav.data_end]
            for payload, wav in zip(payloads, found, strict=True)
        )
        first = found[0] if found else None
        layout = self._layout if first is None else first.format
        body = b"WAVE" + _part(b"fmt ", layout) + _part(b"data", data)
        return _part(b"RIFF", body)
