"""How a pool and its processes write messages to each other: a length, then MessagePack."""

from __future__ import annotations

from typing import Any

import msgspec

LENGTH_BYTES = 4


def frame(message: Any) -> bytes:
    """A message as bytes."""
    content = msgspec.msgpack.encode(message)
    return len(content).to_bytes(LENGTH_BYTES, "big") + content


def length_of(head: bytes) -> int:
    """How long the message after this head is."""
    return int.from_bytes(head, "big")
