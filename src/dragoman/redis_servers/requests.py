"""What can be asked of a server: a run of a function, or a plain command."""

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


class FunctionPlace(msgspec.Struct, frozen=True):
    """A function among those of its library."""

    name: str
    """As the server knows it."""
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
    """By the functions' names in the library."""

    @classmethod
    def of(cls, stem: str, parts: Sequence[str]) -> FunctionLibrary:
        """A library of Lua texts, which call `register(name, function, flags...)`, each call on a
        line of its own."""
        text = "\n".join((*parts, _TOGETHER))
        version = sha1(text.encode(), usedforsecurity=False).hexdigest()[:_VERSION_DIGITS]
        name = f"dragoman_{stem}_{version}"
        register = _REGISTER.format(stem=stem, version=version)
        places = {
            function: FunctionPlace(f"{name}_{function}", number, _runs_together(name, flags))
            for number, (function, flags) in enumerate(_REGISTERED.findall(text), 1)
        }
        return cls(name, f"#!lua name={name}\n{register}\n{text}", version, places)

    def function(self, name: str) -> str:
        """The name that the server knows a function by."""
        return self.places[name].name

    def call(
        self, name: str, keys: tuple[Argument, ...], arguments: tuple[Argument, ...]
    ) -> FunctionCall:
        """One run of a function on the keys of one tag."""
        return FunctionCall(self, self.places[name], keys, arguments)

    @property
    def load(self) -> Command:
        return ("FUNCTION", "LOAD", "REPLACE", self.source)


def _runs_together(library: str, flags: str) -> str:
    if "no-writes" in flags:
        return ""
    return f"{library}_together_allow_oom" if "allow-oom" in flags else f"{library}_together"


class RedisRequest(Protocol):
    """Something to send."""

    def command(self) -> Command:
        """The words to send."""
        ...

    @property
    def library(self) -> FunctionLibrary | None:
        """The functions that the server must have been given, if it must."""
        ...


class FunctionCall(msgspec.Struct, frozen=True, gc=False):
    """One run of a function on the keys of one tag."""

    library: FunctionLibrary
    place: FunctionPlace
    keys: tuple[Argument, ...]
    arguments: tuple[Argument, ...]

    def command(self) -> Command:
        return ("FCALL", self.place.name, len(self.keys), *self.keys, *self.arguments)

    @property
    def is_short(self) -> bool:
        """Whether it has few enough words to be run with others."""
        return 0 < len(self.keys) <= MOST_WORDS >= len(self.arguments)


def run_together(calls: Sequence[FunctionCall]) -> Command:
    """One command for calls of a library that the same function runs together."""
    plan = bytearray()
    keys: list[Argument] = []
    arguments: list[Argument] = []
    before: tuple[Argument, ...] = ()
    for call in calls:
        its_keys, its_arguments = call.keys, call.arguments
        if its_keys is before:
            plan += bytes((call.place.number, 0, len(its_arguments)))
        else:
            plan += bytes((call.place.number, len(its_keys), len(its_arguments)))
            keys += its_keys
            before = its_keys
        arguments += its_arguments
    return ("FCALL", calls[0].place.together, len(keys), *keys, bytes(plan), *arguments)


class Plain(msgspec.Struct, frozen=True):
    """One plain command, for what a function cannot do: to wait, for example."""

    words: Command

    def command(self) -> Command:
        return self.words

    @property
    def library(self) -> FunctionLibrary | None:
        return None
