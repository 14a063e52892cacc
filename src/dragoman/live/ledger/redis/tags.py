"""The tags a ledger speaks to: its cells, its job shards and its directory."""

from __future__ import annotations

from asyncio import Future
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeAlias

from dragoman.ids import JOB_SHARDS
from dragoman.live.ledger.redis.errands import Errands
from dragoman.live.ledger.redis.scripts import CELL, DIRECTORY, JOB
from dragoman.redis_servers import Caller, Tag

Answer: TypeAlias = list[Any]
"""What an operation's Lua file says it answers."""

_CARRIERS = frozenset({"reserve", "transition", "finish", "claim", "end", "due_jobs"})
"""Operations that take errands along: their Lua files begin with them."""

_INDIFFERENT = frozenset(
    {"beat", "peek", "outlook", "read_cell", "cell_version", "mark_asked", "bind", "renew"}
)
"""Operations that come to the same before and after an errand."""

_SETTLE_PATIENCE_SECONDS = 0.05
"""Much less than it takes until others look after a finished attempt."""

_RELEASE_PATIENCE_SECONDS = 2.0
"""Less than a binding's lease, before whose end a release changes nothing anyway."""


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
        self.settling = Errands(self._settle, _SETTLE_PATIENCE_SECONDS)
        """Finished attempts that their cells may forget."""
        self.releasing = Errands(self._release, _RELEASE_PATIENCE_SECONDS)
        """Jobs that were delivered."""

    def ask_cell(
        self, cell: int, name: str, arguments: Sequence[Any] = (), *blobs: bytes
    ) -> Future[Answer]:
        return self._ask_along(self.settling, cell, self._cell(cell), name, arguments, blobs)

    def ask_shard(
        self, shard: int, name: str, arguments: Sequence[Any] = (), *blobs: bytes
    ) -> Future[Answer]:
        tag = self._shards[shard]
        return self._ask_along(self.releasing, shard, tag, name, arguments, blobs)

    def ask_directory(self, name: str, arguments: Sequence[Any] = ()) -> Future[Answer]:
        return self._ask(self._directory, name, arguments, ())

    async def finish(self) -> None:
        """Run the errands that still wait."""
        await self.settling.finish()
        await self.releasing.finish()

    def _ask_along(
        self,
        errands: Errands,
        number: int,
        tag: Tag,
        name: str,
        arguments: Sequence[Any],
        blobs: Sequence[bytes],
    ) -> Future[Answer]:
        """Ask, and take along what waits for a call, or have it told before."""
        if name in _CARRIERS:
            along = errands.take(number)
            answer = self._ask(tag, name, arguments, blobs, along)
            if along:
                errands.went(number, along, answer)
            return answer
        if name not in _INDIFFERENT:
            errands.run(number)
        return self._ask(tag, name, arguments, blobs)

    def _settle(self, cell: int, attempt_ids: Sequence[str]) -> Future[Answer]:
        return self._ask(self._cell(cell), "settle", attempt_ids, ())

    def _release(self, shard: int, job_ids: Sequence[str]) -> Future[Answer]:
        return self._ask(self._shards[shard], "release", job_ids, ())

    def _cell(self, cell: int) -> Tag:
        tag = self._cells.get(cell)
        if tag is None:
            tag = self._cells[cell] = Tag.of(CELL, self._key_prefix, f"c{cell}", self._cell_ttl_ms)
        return tag

    def _ask(
        self,
        tag: Tag,
        name: str,
        arguments: Sequence[Any],
        blobs: Sequence[bytes],
        along: Sequence[str] = (),
    ) -> Future[Answer]:
        self.operations[name] += 1
        shift_ms = self._time_shift_ms() if self._time_shift_ms is not None else 0
        call = tag.call(name, arguments, blobs, time_shift_ms=shift_ms, along=along)
        return self._caller.ask(tag.name, name, call)
