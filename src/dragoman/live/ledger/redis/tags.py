"""The tags a ledger speaks to: its cells, its job shards and its directory."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Sequence
from random import Random
from typing import Any

from dragoman.ids import JOB_SHARDS
from dragoman.live.ledger.redis.batch import Answer, Batcher, Tag
from dragoman.live.ledger.redis.scripts import Kind


class Tags:
    """What every operation needs: where things are, how they are sent, and chance."""

    def __init__(
        self,
        batcher: Batcher,
        random: Random,
        *,
        key_prefix: str,
        cell_size: int,
        max_cells: int,
        cell_ttl_ms: int,
        job_ttl_ms: int,
    ) -> None:
        self._batcher = batcher
        self.random = random
        self.cell_size = cell_size
        self.max_cells = max_cells
        self._directory = Tag.of(Kind.DIRECTORY, key_prefix, "directory", 0)
        self._shards = [
            Tag.of(Kind.JOB, key_prefix, f"j{number:02x}", job_ttl_ms)
            for number in range(JOB_SHARDS)
        ]
        self._key_prefix = key_prefix
        self._cell_ttl_ms = cell_ttl_ms
        self._cells: dict[int, Tag] = {}

    def ask_cell(
        self, cell: int, name: str, arguments: Sequence[Any] = (), *blobs: bytes
    ) -> Future[Answer]:
        tag = self._cells.get(cell)
        if tag is None:
            tag = self._cells[cell] = Tag.of(
                Kind.CELL, self._key_prefix, f"c{cell}", self._cell_ttl_ms
            )
        return self._batcher.submit(tag, name, arguments, *blobs)

    def ask_shard(
        self, shard: int, name: str, arguments: Sequence[Any] = (), *blobs: bytes
    ) -> Future[Answer]:
        return self._batcher.submit(self._shards[shard], name, arguments, *blobs)

    def ask_directory(self, name: str, arguments: Sequence[Any] = ()) -> Future[Answer]:
        return self._batcher.submit(self._directory, name, arguments)
