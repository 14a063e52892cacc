"""The API key: 256 random bits that are never printed or pickled by accident."""

from __future__ import annotations

import hmac
import re
import secrets
from hashlib import sha256
from typing import NoReturn

PREFIX = "dgm_"
"""The prefix of every key, so that people and secret scanners recognise one."""

SIGN_IN_PREFIX = "dgs_"
"""The prefix of what a browser gets for a key: good for some hours, and only while the key is."""

_KEY_BYTES = 32
_FORM = re.compile(r"dg[ms]_[A-Za-z0-9_-]{43}")


class ApiKey:
    """A key as its holder presents it. It prints as ``ApiKey(***)``, wherever it ends up."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    @classmethod
    def generate(cls) -> ApiKey:
        """A new key, impossible to guess."""
        return cls(PREFIX + secrets.token_urlsafe(_KEY_BYTES))

    @classmethod
    def generate_sign_in(cls) -> ApiKey:
        """What stands for a key in one browser, impossible to guess too."""
        return cls(SIGN_IN_PREFIX + secrets.token_urlsafe(_KEY_BYTES))

    def reveal(self) -> str:
        """The key in clear, for the one moment when its holder is shown it."""
        return self._text

    def is_well_formed(self) -> bool:
        """Whether the text has the form of a key; any other text is not looked up."""
        return _FORM.fullmatch(self._text) is not None

    def digest(self) -> str:
        """The SHA-256 of the key, which is all that is ever stored."""
        return sha256(self._text.encode("utf-8", "surrogatepass")).hexdigest()

    def matches(self, digest: str) -> bool:
        """Whether the digest is this key's, in a time that does not depend on the answer."""
        return hmac.compare_digest(self.digest(), digest)

    def __repr__(self) -> str:
        return "ApiKey(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ApiKey) and self.matches(other.digest())

    def __hash__(self) -> int:
        return hash(self.digest())

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not pickled: it would leave the process in clear")
