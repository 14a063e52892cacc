"""The way to the functions: their libraries, the names of keys, and one call each."""

from __future__ import annotations

from asyncio import Future
from collections import Counter
from collections.abc import Callable
from importlib.resources import files
from random import Random
from struct import Struct
from typing import Any, TypeAlias

from dragoman.errors import DependencyDown
from dragoman.redis_servers import Caller, FunctionCall, Library, Plain

Answer: TypeAlias = Any
"""What a function's header says it answers."""

Word: TypeAlias = bytes | str | int

MODEL = "m2"
"""The version of the data model, part of every key: another model's keys are never touched."""

PAYLOAD_BYTES = 1_024
"""Anything longer lies under a key of its own: Lua copies and hashes what goes through it."""

_FUNCTIONS = files("dragoman.live.shared") / "functions"
_TIME = Struct("<d")


def _library(stem: str, *parts: str) -> Library:
    texts = [(_FUNCTIONS / f"{part}.lua").read_text("utf-8") for part in parts]
    return Library.of(stem, texts)


SHARD = _library("shard", "opening", "session", "job")
CELL = _library("cell", "opening", "board", "attempt", "seat")
DIRECTORY = _library("directory", "opening", "directory")


def unstored(what: str) -> DependencyDown:
    """A payload was not there when the operation that needs it came; nothing was done."""
    return DependencyDown(f"Redis did not keep {what}, perhaps for want of memory. Ask again.")


class Tag:
    """Keys that live on one server, and the functions that work on them."""

    def __init__(self, prefix: str, tag: str, library: Library) -> None:
        self.name = f"{prefix}:{MODEL}:{{{tag}}}"
        self.library = library

    def key(self, name: str) -> bytes:
        return f"{self.name}:{name}".encode()


class Server:
    """Sends calls, and counts them."""

    def __init__(
        self,
        caller: Caller,
        random: Random,
        *,
        key_prefix: str,
        time_ms: Callable[[], int] | None = None,
    ) -> None:
        self._caller = caller
        self.random = random
        self.key_prefix = key_prefix
        self.operations: Counter[str] = Counter()
        """How often each function was called."""
        self._time_ms = time_ms
        self._servers_time = _TIME.pack(0)
        self._functions: dict[tuple[str, str], str] = {}

    @property
    def time(self) -> bytes:
        """What the first argument of every function begins with."""
        return self._servers_time if self._time_ms is None else _TIME.pack(self._time_ms())

    def call(
        self, tag: Tag, name: str, keys: tuple[Word, ...], terms: bytes, *arguments: Word
    ) -> Future[Answer]:
        """One function on the keys of one tag; its outcome is unknown when it is refused."""
        self.operations[name] += 1
        library = tag.library
        function = self._functions.get((library.name, name))
        if function is None:
            function = self._functions[library.name, name] = library.function(name)
        call = FunctionCall(library, function, keys, (self.time + terms, *arguments))
        return self._caller.ask(tag.name, name, call)

    def lane(self, tag: Tag) -> str:
        """The server that holds a tag."""
        return self._caller.lane(tag.name)

    async def now_ms(self, tag: Tag) -> int:
        """The time of the server that holds a tag."""
        if self._time_ms is not None:
            return self._time_ms()
        seconds, micros = await self.plain(tag, "TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def scan(self, tag: Tag, pattern: str) -> set[bytes]:
        """The keys on the server that holds a tag, for tests and for operators."""
        cursor = b"0"
        found: set[bytes] = set()
        while True:
            cursor, keys = await self.plain(
                tag, "SCAN", cursor, "MATCH", f"{self.key_prefix}:{MODEL}:{pattern}", "COUNT", 1_000
            )
            found.update(keys)
            if cursor == b"0":
                return found

    def plain(self, tag: Tag, *words: Word) -> Future[Answer]:
        """One plain command."""
        self.operations[str(words[0])] += 1
        return self._caller.ask(tag.name, str(words[0]), Plain(words))
