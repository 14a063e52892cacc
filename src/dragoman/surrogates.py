"""Halves of surrogate pairs in JSON: escapes of the right form that stand for no character."""

from __future__ import annotations

import re

_HIGH = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(rb"(?P<pair>%b%b)|(?P<half>%b|%b)|\\." % (_HIGH, _LOW, _HIGH, _LOW), re.DOTALL)
"""The next escape: from left to right, a backslash that is escaped itself begins none."""


def lone_surrogate(data: bytes | str) -> str | None:
    """The first escape in a JSON text that is half of a surrogate pair, such as ``\\ud83d``."""
    text = data.encode(errors="replace") if isinstance(data, str) else data
    halves = (found["half"] for found in _ESCAPE.finditer(text))
    half = next(filter(None, halves), None)
    return None if half is None else half.decode()


def half_pair(half: str) -> str:
    """What is wrong with a text that holds one."""
    return f"`{half}` is half of a surrogate pair and no character; write the whole pair"
