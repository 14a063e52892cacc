"""Labs in processes of their own, to be killed, paused and started again."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType

from tests.integration.lab_engine.laboratory import QUICK, laboratory

from dragoman.clock import SystemClock
from dragoman.errors import StoreError
from dragoman.lab.queue import open_queue
from dragoman.lab.repository import JournalEntry, Lease, items, journaling, leases
from dragoman.observability import Metrics
from dragoman.settings import LabSettings

# The modules are imported once, by a server that the processes are forked from; those of databases
# and queues, too, which a process imports when it first needs them.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "tests.integration.lab_engine.laboratory",
        "tests.integration.lab_engine.targets",
        "dragoman.store.postgres",
        "dragoman.store.mysql",
        "asyncmy",
        "asyncpg",
        "redis.asyncio",
    ]
)


_RESTART_SECONDS = 0.1


class LabProcess:
    """A scheduler, a worker, or both, at work on a database until it is stopped."""

    def __init__(
        self,
        url: str,
        *,
        schedules: bool = True,
        works: bool = True,
        metrics: str = "",
        queue_url: str = "",
        settings: LabSettings = QUICK,
        fenced: bool = True,
    ) -> None:
        """`fenced`: whether a late write is refused, as it should be."""
        self.schedules = schedules
        role = Role(url, schedules, works, metrics, queue_url, settings, fenced)
        self._process: BaseProcess = _CONTEXT.Process(target=_live, args=(role,), daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self._process.kill()
        self._process.join()

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def __enter__(self) -> LabProcess:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()
        self._process.close()


@dataclass(frozen=True)
class Role:
    """What a process is to do."""

    url: str
    schedules: bool
    works: bool
    metrics: str
    queue_url: str
    settings: LabSettings
    fenced: bool


def _live(role: Role) -> None:
    if not role.fenced:
        _switch_fencing_off()
    while True:
        try:
            asyncio.run(_work(role))
        except StoreError:  # its database is starting: a supervisor would start it again, too
            time.sleep(_RESTART_SECONDS)


async def _work(role: Role) -> None:
    queue = open_queue(role.queue_url, role.url, f"process {os.getpid()}", SystemClock())
    async with laboratory(
        role.url, role.settings, schedules=role.schedules, works=role.works, queue=queue
    ) as at:
        while True:
            await asyncio.sleep(0.02)
            if role.metrics:
                _tell(Path(role.metrics), at.metrics)


def _switch_fencing_off() -> None:
    """Accept every write, under whichever token, and revoke nothing."""

    def tokens_held(connection: object, owner: str, entries: Sequence[JournalEntry]) -> object:
        return {(one.lease.run_id, one.lease.key): one.lease.token for one in entries}

    def renew(connection: object, owner: str, leases: Sequence[Lease], lease_ms: int) -> object:
        return set(leases)

    journaling._tokens_held = tokens_held  # type: ignore[assignment]
    items.renew = renew  # type: ignore[assignment]
    leases.require = lambda connection, held: None


def _tell(path: Path, metrics: Metrics) -> None:
    path.write_bytes(metrics.exposition())
