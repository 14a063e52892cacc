"""Where chance comes from: one seed, and an independent stream for each part that needs one.

What others must not be able to predict does not follow from a seed: it comes from the operating
system.
"""

from __future__ import annotations

import hmac
import secrets
from hashlib import blake2b, sha256
from random import Random

_TOKEN_BITS = 256


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


class Secrets:
    """Makes tokens, and ids that others must not know beforehand.

    Enough of a seeded generator's output lets an attacker predict the rest; so the bits are
    the operating system's. Only a simulation, which has nothing to hide, passes a generator of
    its own, and can then be repeated.
    """

    def __init__(self, source: Random | None = None) -> None:
        self.source = source or secrets.SystemRandom()

    def token(self) -> str:
        """256 bits, as 64 hexadecimal digits."""
        return f"{self.source.getrandbits(_TOKEN_BITS):064x}"


def token_hash(token: str, *context: str) -> str:
    """What is kept of a token.

    The context is what the token is good for, such as a tenant: under another one its hash
    is another. Tokens are random, so a plain hash cannot be searched.
    """
    parts = "".join(f"{len(part)}:{part}" for part in context)
    return sha256(f"{parts}{token}".encode("utf-8", "surrogatepass")).hexdigest()


def is_same(one: str, other: str) -> bool:
    """Whether two hashes are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(one.encode(), other.encode())
