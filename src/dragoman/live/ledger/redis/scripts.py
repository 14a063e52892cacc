"""The Lua scripts, put together from one file an operation."""

from __future__ import annotations

from enum import StrEnum
from hashlib import sha1
from importlib.resources import files

import msgspec

_LUA = files("dragoman.live.ledger") / "lua"


class Kind(StrEnum):
    """What a tag holds; each kind has a script of its own."""

    CELL = "cell"
    JOB = "job"
    DIRECTORY = "directory"


class Script(msgspec.Struct, frozen=True):
    """A script as the server gets it, and the name the server knows it by."""

    source: str
    sha: str
    keys: tuple[str, ...]
    """The last parts of its keys' names, in the order of KEYS."""


_KEYS: dict[Kind, tuple[str, ...]] = {
    Kind.CELL: ("board", "seats", "held", "ended", "outputs", "holds", "due", "heirs"),
    Kind.JOB: ("jobs", "specs", "inputs", "outputs", "bindings", "due", "recent"),
    Kind.DIRECTORY: ("entries", "members", "counts", "full"),
}

_PIECES: dict[Kind, tuple[str, ...]] = {
    Kind.CELL: ("board", "attempts", "freeing", "choice", "granting"),
    Kind.JOB: ("job",),
    Kind.DIRECTORY: ("directory",),
}
"""What the operations of a kind share, in the order they build on each other."""


def _text(folder: str, name: str) -> str:
    return (_LUA / folder / f"{name}.lua").read_text("utf-8")


def _assemble(kind: Kind) -> Script:
    shared = _PIECES[kind]
    operations = sorted(
        entry.name.removesuffix(".lua")
        for entry in (_LUA / kind).iterdir()
        if entry.name.endswith(".lua") and entry.name.removesuffix(".lua") not in shared
    )
    source = "\n".join(
        (
            _text("shared", "now"),
            *(_text(kind, name) for name in (*shared, *operations)),
            _text("shared", "batch"),
        )
    )
    return Script(source, sha1(source.encode(), usedforsecurity=False).hexdigest(), _KEYS[kind])


SCRIPTS: dict[Kind, Script] = {kind: _assemble(kind) for kind in Kind}
