"""Keeps the audit log: writes each entry before its action is answered, or keeps it until it can.

A database that is down must not keep an operator from draining a broken node, and must not hide
that they did. So an entry that cannot be written goes to the server's log at once, waits in memory,
and is written when the database is back. When too many wait, further actions are refused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Self

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from dragoman.audit.entries import AuditEntry, AuditStore
from dragoman.clock import Clock
from dragoman.errors import DependencyDown, DragomanError
from dragoman.observability import get_logger

MAX_WAITING = 1000
"""Entries that may wait for the database; then actions are refused."""

WRITE_SECONDS = 2.0
"""How long an action waits for its entry to be written."""

RETRY_SECONDS = 5.0
PRUNE_SECONDS = 3600.0
_DAY_MS = 24 * 3600 * 1000
_RETRY_MS = 5_000
_NOT_WRITTEN = (DragomanError, SQLAlchemyError, TimeoutError)

_log = get_logger(__name__)


class AuditLog:
    """The audit log of one server. Used as ``async with``: it retries and forgets meanwhile."""

    def __init__(
        self,
        store: AuditStore,
        clock: Clock,
        *,
        retention_days: int,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """retention_days: how long entries are kept; 0: for ever."""
        self.store = store
        self._clock = clock
        self._retention_days = retention_days
        self._retry_seconds = retry_seconds
        self._waiting: deque[AuditEntry] = deque()
        self._writing = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def waiting(self) -> int:
        """How many entries the database does not have yet."""
        return len(self._waiting)

    def check_room(self) -> None:
        """Refuse an action that could not be logged."""
        if len(self._waiting) >= MAX_WAITING:
            raise DependencyDown(
                f"The audit log cannot be written, and {MAX_WAITING} entries wait for the "
                "database: nothing more is done unlogged. Bring the database back, and try again.",
                retry_after_ms=_RETRY_MS,
            )

    async def record(self, entry: AuditEntry) -> None:
        """Keep an entry; returns when it is written, or when it waits for the database."""
        _log.info("audit", **_fields(entry))
        self._waiting.append(entry)
        try:
            await self.write_waiting()
        except _NOT_WRITTEN as error:
            _log.error("audit_not_written", error=str(error), **_fields(entry))

    async def write_waiting(self) -> None:
        """Write everything that waits; raises when the database does not take it."""
        async with asyncio.timeout(WRITE_SECONDS), self._writing:
            entries = list(self._waiting)
            if not entries:
                return
            await self.store.add(entries)
            for _ in entries:
                self._waiting.popleft()

    async def prune(self) -> int:
        """Forget the entries that are older than they are kept; how many there were."""
        if not self._retention_days:
            return 0
        return await self.store.remove_before(self._clock.now_ms() - self._retention_days * _DAY_MS)

    async def __aenter__(self) -> Self:
        self._tasks = [
            asyncio.create_task(self._retry_forever(), name="audit"),
            asyncio.create_task(self._prune_forever(), name="audit retention"),
        ]
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await self.write_waiting()
        except _NOT_WRITTEN:
            for entry in self._waiting:
                _log.error("audit_lost", **_fields(entry))

    async def _retry_forever(self) -> None:
        while True:
            await asyncio.sleep(self._retry_seconds)
            try:
                await self.write_waiting()
            except _NOT_WRITTEN as error:
                _log.warning("audit_waits", entries=len(self._waiting), error=str(error))

    async def _prune_forever(self) -> None:
        while True:
            try:
                await self.prune()
            except _NOT_WRITTEN as error:
                _log.warning("audit_not_pruned", error=str(error))
            await asyncio.sleep(PRUNE_SECONDS)


def _fields(entry: AuditEntry) -> dict[str, object]:
    """An entry as a line of the server's log has it."""
    return {
        **msgspec.structs.asdict(entry),
        "outcome": entry.outcome.value,
        "facts": dict(entry.facts),
    }
