"""The way to the functions: their libraries, the names of keys, and one call each."""

from __future__ import annotations

from asyncio import Future, get_running_loop
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from random import Random
from struct import Struct
from typing import Any, TypeAlias

from dragoman.errors import DependencyDown, DragomanError
from dragoman.observability import get_logger
from dragoman.redis_servers import (
    FunctionCall,
    FunctionLibrary,
    Plain,
    RedisPipeline,
    settle,
    versioned,
)

Answer: TypeAlias = Any
"""What a function's header says it answers."""

Word: TypeAlias = bytes | str | int

PAYLOAD_BYTES = 1_024
"""Anything longer lies under a key of its own: Lua copies and hashes what goes through it."""

_UNREADABLE_SECONDS = 3_600

log = get_logger("dragoman.cluster")

_FUNCTIONS = files("dragoman.live.shared") / "functions"
_TIME = Struct("<d")


def _library(stem: str, *parts: str) -> FunctionLibrary:
    texts = [(_FUNCTIONS / f"{part}.lua").read_text("utf-8") for part in parts]
    return FunctionLibrary.of(stem, texts)


SHARD = _library("shard", "opening", "session", "job")
CELL = _library("cell", "opening", "board", "attempt", "seat")
DIRECTORY = _library("directory", "opening", "directory")
CHECK = _library("check", "opening", "check")


def unstored(what: str) -> DependencyDown:
    """A payload was not there when the operation that needs it came; nothing was done."""
    return DependencyDown(f"Redis did not keep {what}, perhaps for want of memory. Ask again.")


def unreadable(key: bytes, field: bytes = b"") -> None:
    """Say once in an hour that something is passed over; the operator's check removes it."""
    where = (key + b" " + field).decode("utf-8", "backslashreplace").strip()
    log.warning_limited(
        "entry_unreadable",
        key=where,
        every_seconds=_UNREADABLE_SECONDS,
        where=where,
        remedy="dragoman cluster check --repair",
    )


class FunctionTag:
    """Keys that live on one server, and the functions that work on them."""

    def __init__(self, prefix: str, tag: str, library: FunctionLibrary) -> None:
        self.name = f"{versioned(prefix)}:{{{tag}}}"
        self._begins = f"{self.name}:".encode()
        self.library = library

    def key(self, name: str) -> bytes:
        return self._begins + name.encode()


class FunctionServer:
    """Sends calls, and counts them."""

    def __init__(
        self,
        caller: RedisPipeline,
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

    @property
    def time(self) -> bytes:
        """What the first argument of every function begins with."""
        return self._servers_time if self._time_ms is None else _TIME.pack(self._time_ms())

    def call(
        self, tag: FunctionTag, name: str, keys: tuple[Word, ...], terms: bytes, *arguments: Word
    ) -> Future[Answer]:
        """One function on the keys of one tag; its outcome is unknown when it is refused."""
        reply: Future[Answer] = get_running_loop().create_future()
        self.send(tag, name, keys, terms, arguments, partial(settle, reply))
        return reply

    def send(
        self,
        tag: FunctionTag,
        name: str,
        keys: tuple[Word, ...],
        terms: bytes,
        arguments: tuple[Word, ...],
        then: Callable[[Answer, DragomanError | None], None],
    ) -> None:
        """The same, answered through a callback where the reply is read."""
        self.operations[name] += 1
        library = tag.library
        time = self._servers_time if self._time_ms is None else self.time
        call = FunctionCall(library, library.places[name], keys, (time + terms, *arguments))
        self._caller.send(tag.name, name, call, then)

    def lane(self, tag: FunctionTag) -> str:
        """The server that holds a tag."""
        return self._caller.lane(tag.name)

    async def now_ms(self, tag: FunctionTag) -> int:
        """The time of the server that holds a tag."""
        if self._time_ms is not None:
            return self._time_ms()
        seconds, micros = await self.plain(tag, "TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def scan(self, tag: FunctionTag, pattern: str) -> set[bytes]:
        """The keys on the server that holds a tag, for tests and for operators."""
        wanted = f"{versioned(self.key_prefix)}:{pattern}"
        cursor = b"0"
        found: set[bytes] = set()
        while True:
            cursor, keys = await self.plain(tag, "SCAN", cursor, "MATCH", wanted, "COUNT", 1_000)
            found.update(keys)
            if cursor == b"0":
                return found

    def plain(self, tag: FunctionTag, *words: Word, name: str = "") -> Future[Answer]:
        """One plain command; it counts under its own name, or that of an operation."""
        name = name or str(words[0])
        self.operations[name] += 1
        return self._caller.ask(tag.name, name, Plain(words))
