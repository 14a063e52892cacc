"""Where chance comes from: one seed, and an independent stream for each part that needs one."""

from __future__ import annotations

import secrets
from hashlib import blake2b
from random import Random


class Randomness:
    """A tree of random streams that all follow from one seed.

    A stream depends on the seed and on its own name only, so adding a part does not change
    what the others draw.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.seed = secrets.randbits(64) if seed is None else seed

    def stream(self, name: str) -> Random:
        digest = blake2b(f"{self.seed}\0{name}".encode(), digest_size=16).digest()
        return Random(int.from_bytes(digest, "big"))
