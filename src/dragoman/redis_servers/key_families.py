"""Every kind of key that Dragoman keeps in Redis, declared by the rooms that keep it."""

from __future__ import annotations

import re

import msgspec

MODEL = "m2"
"""The version of the data model, part of every key: another model's keys are never touched."""


def versioned(key_prefix: str) -> str:
    """What all keys begin with: the prefix that was set, and the model's version."""
    return f"{key_prefix}:{MODEL}"


class KeyFamily(msgspec.Struct, frozen=True):
    """Keys of one kind. In tag and name, what differs between them stands in angle brackets."""

    tag: str
    """The hash tag: keys with the same one live on the same server."""
    name: str
    kind: str
    """Redis's type."""
    holds: str
    size: str
    lives: str
    """When it is gone by itself, and what keeps it."""
    for_ever: bool = False
    """It has no time to live."""

    @property
    def pattern(self) -> str:
        return f"{{{self.tag}}}:{self.name}"


def family_of(key: bytes, key_prefix: str, families: tuple[KeyFamily, ...]) -> KeyFamily | None:
    """The family that a key belongs to; None for one that was not declared."""
    prefix = f"{versioned(key_prefix)}:".encode()
    if not key.startswith(prefix):
        return None
    name = key[len(prefix) :].decode("utf-8", "replace")
    return next((each for each in families if _matcher(each.pattern).fullmatch(name)), None)


_matchers: dict[str, re.Pattern[str]] = {}


def _matcher(pattern: str) -> re.Pattern[str]:
    known = _matchers.get(pattern)
    if known is None:
        parts = re.split(r"(<[^>]+>)", pattern)
        known = _matchers[pattern] = re.compile(
            "".join(".+" if part.startswith("<") else re.escape(part) for part in parts), re.DOTALL
        )
    return known
