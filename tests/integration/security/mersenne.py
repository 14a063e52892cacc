"""What an attacker knows of Python's generator: 624 words of its output tell all that follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

STATE_WORDS = 624
_WORD = 0xFFFFFFFF


def words_of(hexadecimal: str) -> Iterator[int]:
    """The words that ``getrandbits`` put together, in the order in which they were drawn."""
    for end in range(len(hexadecimal), 0, -8):
        yield int(hexadecimal[end - 8 : end], 16)


def cloned(words: Iterable[int]) -> Random:
    """A generator that goes on where the one that gave these words is now."""
    state = [_untempered(word) for word in words]
    clone = Random()
    clone.setstate((3, (*state[:STATE_WORDS], STATE_WORDS), None))
    for _ in state[STATE_WORDS:]:
        clone.getrandbits(32)
    return clone


def _untempered(word: int) -> int:
    word ^= word >> 18
    word ^= (word << 15) & 0xEFC60000
    guess = word
    for _ in range(5):
        guess = word ^ ((guess << 7) & 0x9D2C5680)
    word = guess & _WORD
    guess = word
    for _ in range(3):
        guess = word ^ (guess >> 11)
    return guess & _WORD
