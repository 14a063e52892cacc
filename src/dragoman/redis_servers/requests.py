"""What can be asked of a server: a run of a script or of a function, or a plain command."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha1
from importlib.resources import files
from typing import Protocol, TypeAlias

import msgspec

Argument: TypeAlias = bytes | str | int
Command: TypeAlias = tuple[Argument, ...]

_VERSION_DIGITS = 10

_REGISTER = """
local OPERATIONS = {{}}
local function register(name, callback, ...)
  OPERATIONS[#OPERATIONS + 1] = callback
  redis.register_function{{
    function_name = 'dragoman_{stem}_{version}_' .. name, callback = callback, flags = {{...}}}}
end
"""
_REGISTERED = re.compile(r"^register\('(\w+)'(.*)", re.MULTILINE)
_TOGETHER = (files("dragoman.redis_servers") / "lua" / "together.lua").read_text("utf-8")

MOST_WORDS = 255
"""Keys, or arguments, of a call that may be run together with others."""


class Script(msgspec.Struct, frozen=True):
    """A script as the server gets it, and the name the server knows it by."""

    source: str
    sha: str
    keys: tuple[str, ...]
    """The last parts of its keys' names, in the order of KEYS."""

    @classmethod
    def of(cls, source: str, keys: tuple[str, ...]) -> Script:
        return cls(source, sha1(source.encode(), usedforsecurity=False).hexdigest(), keys)


class FunctionPlace(msgspec.Struct, frozen=True):
    """A function among those of its library."""

    number: int
    together: str
    """What runs it with others, as the server knows it: as much memory as they need, or only as
    there is; empty where it runs by itself."""


class FunctionLibrary(msgspec.Struct, frozen=True):
    """Functions as the server gets them. Their names end with a hash of the source, so that the
    functions of two versions are there side by side."""

    name: str
    source: str
    version: str
    places: dict[str, FunctionPlace]
    """By the names that the server knows the functions by."""

    @classmethod
    def of(cls, stem: str, parts: Sequence[str]) -> FunctionLibrary:
        """A library of Lua texts, which call `register(name, function, flags...)`, each call on a
        line of its own."""
        text = "\n".join((*parts, _TOGETHER))
        version = sha1(text.encode(), usedforsecurity=False).hexdigest()[:_VERSION_DIGITS]
        name = f"dragoman_{stem}_{version}"
        register = _REGISTER.format(stem=stem, version=version)
        places = {
            f"{name}_{function}": FunctionPlace(number, _runs_together(name, flags))
            for number, (function, flags) in enumerate(_REGISTERED.findall(text), 1)
        }
        return cls(name, f"#!lua name={name}\n{register}\n{text}", version, places)

    def function(self, name: str) -> str:
        """The name that the server knows a function by."""
        return f"{self.name}_{name}"

    @property
    def load(self) -> Command:
        return ("FUNCTION", "LOAD", "REPLACE", self.source)


def _runs_together(library: str, flags: str) -> str:
    if "no-writes" in flags:
        return ""
    return f"{library}_together_allow_oom" if "allow-oom" in flags else f"{library}_together"


class RedisRequest(Protocol):
    """Something to send."""

    def command(self, known: set[str]) -> Command:
        """The words to send to a server that knows these scripts, and any that is in them."""
        ...

    def unknown(self, known: set[str]) -> None:
        """The server said that it does not know the script, whatever it knew before."""
        ...

    @property
    def library(self) -> FunctionLibrary | None:
        """The functions that the server must have been given, if it must."""
        ...


class ScriptCall(msgspec.Struct, frozen=True):
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

    @property
    def library(self) -> FunctionLibrary | None:
        return None


class FunctionCall(msgspec.Struct, frozen=True):
    """One run of a function on the keys of one tag."""

    library: FunctionLibrary
    function: str
    """As the server knows it."""
    keys: tuple[Argument, ...]
    arguments: tuple[Argument, ...]

    def command(self, known: set[str]) -> Command:
        return ("FCALL", self.function, len(self.keys), *self.keys, *self.arguments)

    def unknown(self, known: set[str]) -> None:
        """What a server has of libraries is not remembered: it is asked, and says so."""

    @property
    def together(self) -> str:
        """What runs it with others, as the server knows it; empty where it goes by itself."""
        place = self.library.places.get(self.function)
        most = max(len(self.keys), len(self.arguments))
        return place.together if place and self.keys and most <= MOST_WORDS else ""


def run_together(calls: Sequence[FunctionCall]) -> Command:
    """One command for calls of a library that the same function runs together."""
    plan = bytearray()
    keys: list[Argument] = []
    arguments: list[Argument] = []
    before: tuple[Argument, ...] = ()
    for call in calls:
        place = call.library.places[call.function]
        is_same = call.keys == before
        plan += bytes((place.number, 0 if is_same else len(call.keys), len(call.arguments)))
        if not is_same:
            keys += call.keys
            before = call.keys
        arguments += call.arguments
    return ("FCALL", calls[0].together, len(keys), *keys, bytes(plan), *arguments)


class Plain(msgspec.Struct, frozen=True):
    """One plain command, for what a script cannot do: to wait, for example."""

    words: Command

    def command(self, known: set[str]) -> Command:
        return self.words

    def unknown(self, known: set[str]) -> None:
        """There is no script in it."""

    @property
    def library(self) -> FunctionLibrary | None:
        return None
