"""Text of others on a terminal: what would steer the terminal is shown as a mark instead."""

from __future__ import annotations

import re

_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, among them the one that begins a sequence
    "\u202a-\u202e\u2066-\u2069"  # they turn around the direction of what follows
    "\ud800-\udfff]"  # halves of pairs, which no stream can write
)
MARK = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """The text with a mark for every character that a terminal would obey; lines stay lines."""
    return _STEERING.sub(MARK, text)
