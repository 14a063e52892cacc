"""Operations on a tag: a Lua file each, sent to the server as a script of its own.

A script holds the operation and only those shared definitions that it reaches. The server makes
every function of a script anew at each run; all of a folder's would cost more than the work.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import msgspec

from dragoman.redis_servers.requests import Script, ScriptCall

_OWN_LUA = files("dragoman.redis_servers") / "lua"

_COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)
_QUOTED = re.compile(r"'[^'\n]*'")
_DEFINITION = re.compile(r"^(?=local )", re.MULTILINE)
_DEFINED = re.compile(r"local (?:function )?([\w, ]+)")
_NAME = re.compile(r"(?<![.\w])[A-Za-z_]\w*")
"""A name by itself; what follows a dot is a field."""

_pack = msgspec.msgpack.Encoder().encode


class Operations(msgspec.Struct, frozen=True):
    """What can be done with the same kind of tag."""

    keys: tuple[str, ...]
    """The last parts of a tag's keys, in the order of KEYS."""
    scripts: dict[str, Script]

    @classmethod
    def read(cls, folder: Traversable, keys: tuple[str, ...], shared: Sequence[str]) -> Operations:
        """The operations of a folder, one a file; shared names the files that they build on.

        An operation's file defines `operation(arguments, blob, blob)`. A shared file consists of
        definitions, each with its `local` at the beginning of a line.
        """
        definitions = [
            definition
            for text in (_text(_OWN_LUA, "opening"), *(_text(folder, name) for name in shared))
            for definition in _definitions(text)
        ]
        names = sorted(entry.name.removesuffix(".lua") for entry in folder.iterdir())
        return cls(
            keys,
            {
                name: Script.of(_source(definitions, _text(folder, name)), keys)
                for name in names
                if name not in shared
            },
        )


class KeyTag(msgspec.Struct, frozen=True):
    """Keys that live on one server, and what can be done with them."""

    operations: Operations
    name: str
    keys: tuple[bytes, ...]
    least_ttl_ms: int
    """What is written stays at least this long."""

    @classmethod
    def of(cls, operations: Operations, prefix: str, tag: str, least_ttl_ms: int) -> KeyTag:
        name = f"{prefix}:{{{tag}}}"
        keys = tuple(f"{name}:{key}".encode() for key in operations.keys)
        return cls(operations, name, keys, least_ttl_ms)

    def call(
        self,
        name: str,
        arguments: Sequence[Any],
        blobs: Sequence[bytes],
        *,
        time_shift_ms: int = 0,
        along: Sequence[str] = (),
    ) -> ScriptCall:
        """One operation, ready to be sent.

        The arguments must be text, numbers, booleans or lists of them; binary goes in blobs.
        Names that go along are for those operations that look for them.
        """
        terms = _pack((time_shift_ms, self.least_ttl_ms, arguments, along))
        return ScriptCall(self.operations.scripts[name], self.keys, [terms, *blobs])


class _Definition(msgspec.Struct, frozen=True):
    """A `local` at the beginning of a line, up to the next one."""

    text: str
    defines: frozenset[str]
    mentions: frozenset[str]


def _text(folder: Traversable, name: str) -> str:
    """A file without its comments, which are for its readers."""
    return _COMMENT.sub("", (folder / f"{name}.lua").read_text("utf-8"))


def _definitions(text: str) -> list[_Definition]:
    found = []
    for part in _DEFINITION.split(text):
        head = _DEFINED.match(part)
        if head is not None:
            found.append(_Definition(part, frozenset(_NAME.findall(head[1])), _mentions(part)))
    return found


def _mentions(text: str) -> frozenset[str]:
    return frozenset(_NAME.findall(_QUOTED.sub("", text)))


def _source(definitions: Sequence[_Definition], operation: str) -> str:
    closing = _text(_OWN_LUA, "closing")
    wanted = _mentions(operation) | _mentions(closing)
    parts = [closing, operation]
    # Backwards, because Lua knows only what was defined before.
    for definition in reversed(definitions):
        if definition.defines & wanted:
            wanted |= definition.mentions
            parts.append(definition.text)
    return "".join(reversed(parts))
