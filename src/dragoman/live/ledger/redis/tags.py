"""The tags a ledger speaks to: its cells, its job shards and its directory."""

from __future__ import annotations

from asyncio import Future
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeAlias

from dragoman.ids import JOB_SHARDS
from dragoman.live.ledger.redis.scripts import CELL, DIRECTORY, JOB
from dragoman.redis_servers import Caller, Tag

Answer: TypeAlias = list[Any]
"""What an operation's Lua file says it answers."""


class Tags:
    """What every operation needs: where things are, how they are sent, and chance."""

    def __init__(
        self,
        caller: Caller,
        random: Random,
        *,
        key_prefix: str,
        cell_size: int,
        max_cells: int,
        cell_ttl_ms: int,
        job_ttl_ms: int,
        time_shift_ms: Callable[[], int] | None = None,
    ) -> None:
        self._caller = caller
        self.random = random
        self.cell_size = cell_size
        self.max_cells = max_cells
        self.operations: Counter[str] = Counter()
        """How often each operation was asked for."""
        self._directory = Tag.of(DIRECTORY, key_prefix, "directory", 0)
        self._shards = [
            Tag.of(JOB, key_prefix, f"j{number:02x}", job_ttl_ms) for number in range(JOB_SHARDS)
        ]
        self._key_prefix = key_prefix
        self._cell_ttl_ms = cell_ttl_ms
        self._time_shift_ms = time_shift_ms
        self._cells: dict[int, Tag] = {}

    def ask_cell(
        self, cell: int, name: str, arguments: Sequence[Any] = (), *blobs: bytes
    ) -> Future[Answer]:
        tag = self._cells.get(cell)
        if tag is None:
            tag = self._cells[cell] = Tag.of(CELL, self._key_prefix, f"c{cell}", self._cell_ttl_ms)
        return self._ask(tag, name, arguments, blobs)

    def ask_shard(
        self, shard: int, name: str, arguments: Sequence[Any] = (), *blobs: bytes
    ) -> Future[Answer]:
        return self._ask(self._shards[shard], name, arguments, blobs)

    def ask_directory(self, name: str, arguments: Sequence[Any] = ()) -> Future[Answer]:
        return self._ask(self._directory, name, arguments, ())

    def _ask(
        self, tag: Tag, name: str, arguments: Sequence[Any], blobs: Sequence[bytes]
    ) -> Future[Answer]:
        self.operations[name] += 1
        shift_ms = self._time_shift_ms() if self._time_shift_ms is not None else 0
        return self._caller.ask(tag.name, name, tag.call(name, arguments, blobs, shift_ms))
