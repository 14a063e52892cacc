"""What changed between two texts, word by word."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import Literal

Piece = tuple[Literal["same", "removed", "added"], str]

MAX_WORDS = 2_000
"""Longer texts are not compared: the time grows with the square of the number of words."""

_NO_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Scripts that are written without spaces, of which each character counts as a word."""
_WORDS = re.compile(rf"\s+|[{_NO_SPACES}]|[^\W{_NO_SPACES}]+|[^\w\s]")


def word_diff(before: str, after: str) -> tuple[Piece, ...] | None:
    """The pieces that stay, go and come; None of texts that are too long to compare."""
    one, other = _WORDS.findall(before), _WORDS.findall(after)
    if max(len(one), len(other)) > MAX_WORDS:
        return None
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
