"""What changed between two texts, word by word."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import Literal

Piece = tuple[Literal["same", "removed", "added"], str]

MAX_WORK = 1_000_000
"""Texts whose numbers of words have a larger product are not compared: it takes as long."""

_NO_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Scripts that are written without spaces, of which each character counts as a word."""
_WORDS = re.compile(rf"\s+|[{_NO_SPACES}]|[^\W{_NO_SPACES}]+|[^\w\s]")


class Differ:
    """Compares the texts of a page, as long as all of them together are not too much work."""

    def __init__(self, most: int = 20 * MAX_WORK) -> None:
        self._left = most

    def diff(self, before: str, after: str) -> tuple[Piece, ...] | None:
        """The pieces that stay, go and come; None where it would take too long."""
        one, other = _WORDS.findall(before), _WORDS.findall(after)
        work = len(one) * len(other)
        if work > min(MAX_WORK, self._left):
            return None
        self._left -= work
        return _pieces(one, other)


def word_diff(before: str, after: str) -> tuple[Piece, ...] | None:
    """The pieces of two texts alone."""
    return Differ().diff(before, after)


def _pieces(one: list[str], other: list[str]) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        removed, added = "".join(one[start:end]), "".join(other[other_start:other_end])
        if tag == "equal":
            pieces.append(("same", removed))
            continue
        if removed:
            pieces.append(("removed", removed))
        if added:
            pieces.append(("added", added))
    return tuple(pieces)
