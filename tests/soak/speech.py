"""Audio that shows whether it is whole: sample number n holds n, so every shift and gap is seen."""

from __future__ import annotations

import sys
from array import array
from random import Random

_VALUES = 1 << 16


def numbered_samples(first: int, count: int) -> bytes:
    """PCM16 samples number `first` and on."""
    samples = array("H", (number % _VALUES for number in range(first, first + count)))
    return _little_endian(samples).tobytes()


def heard_in(audio: bytes) -> str:
    """What a node recognises: ``FIRST+COUNT``, or in what way the audio is not whole."""
    if len(audio) % 2:
        return f"broken: {len(audio)} bytes are no whole number of samples"
    samples = array("H")
    samples.frombytes(audio)
    _little_endian(samples)
    if not samples:
        return "broken: empty"
    first = samples[0]
    for place, value in enumerate(samples):
        if value != (first + place) % _VALUES:
            return f"broken: {value} follows sample {(first + place - 1) % _VALUES}"
    return f"{first}+{len(samples)}"


def in_pieces(audio: bytes, random: Random) -> list[bytes]:
    """The audio in pieces of any size, as a careless client cuts it: samples are torn apart."""
    pieces = []
    at = 0
    while at < len(audio):
        size = random.choice((1, 3, 160, 161, 640, 999, 3200, 3201))
        pieces.append(audio[at : at + size])
        at += size
    return pieces


def follows(first: int, expected: int) -> bool:
    """Whether a sample's value is the one that the number would have."""
    return first == expected % _VALUES


def _little_endian(samples: array[int]) -> array[int]:
    if sys.byteorder == "big":
        samples.byteswap()
    return samples
