"""What can be asked of a server: a run of a script, or a plain command."""

from __future__ import annotations

from hashlib import sha1
from typing import Protocol, TypeAlias

import msgspec

Argument: TypeAlias = bytes | str | int
Command: TypeAlias = tuple[Argument, ...]


class Script(msgspec.Struct, frozen=True):
    """A script as the server gets it, and the name the server knows it by."""

    source: str
    sha: str
    keys: tuple[str, ...]
    """The last parts of its keys' names, in the order of KEYS."""

    @classmethod
    def of(cls, source: str, keys: tuple[str, ...]) -> Script:
        return cls(source, sha1(source.encode(), usedforsecurity=False).hexdigest(), keys)


class Request(Protocol):
    """Something to send."""

    def command(self, known: set[str]) -> Command:
        """The words to send to a server that knows these scripts, and any that is in them."""
        ...

    def unknown(self, known: set[str]) -> None:
        """The server said that it does not know the script, whatever it knew before."""
        ...


class Call(msgspec.Struct, frozen=True):
    """One run of a script on the keys of one tag."""

    script: Script
    keys: tuple[bytes, ...]
    arguments: list[bytes]

    def command(self, known: set[str]) -> Command:
        script = self.script
        if script.sha in known:
            return ("EVALSHA", script.sha, len(self.keys), *self.keys, *self.arguments)
        # Running it in full makes it known to whatever comes after.
        known.add(script.sha)
        return ("EVAL", script.source, len(self.keys), *self.keys, *self.arguments)

    def unknown(self, known: set[str]) -> None:
        known.discard(self.script.sha)


class Plain(msgspec.Struct, frozen=True):
    """One plain command, for what a script cannot do: to wait, for example."""

    words: Command

    def command(self, known: set[str]) -> Command:
        return self.words

    def unknown(self, known: set[str]) -> None:
        """There is no script in it."""
