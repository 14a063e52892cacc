"""What so many items took on so many workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.servers import MariadbProcess, PostgresProcess

from benchmarks.processes import cpu_seconds, family


@dataclass(frozen=True)
class DatabaseServer:
    """A database server of the benchmark's own."""

    name: str
    pid: int
    fresh_database: Callable[[], str]
    """The URL of a new database with Dragoman's schema, which peers put their own table into."""


@contextmanager
def database_server(name: str) -> Iterator[DatabaseServer]:
    """Started for the benchmark. It waits for the disk with every commit, as in production."""
    kinds: dict[str, type[PostgresProcess | MariadbProcess]] = {
        "PostgreSQL": PostgresProcess,
        "MariaDB": MariadbProcess,
    }
    server = kinds[name](durable=True)
    try:
        yield DatabaseServer(name, server.pid, server.fresh_database)
    finally:
        server.stop()


@dataclass(frozen=True)
class Task:
    """What is measured."""

    items: int
    workers: int
    latency_seconds: float


@dataclass
class Measured:
    """One round: its rate, and the CPU time of the processes that took part."""

    items: int
    seconds: float = 0.0
    cpu_seconds: dict[str, float] = field(default_factory=dict)
    """By the part that a process plays."""

    @property
    def items_per_second(self) -> float:
        return self.items / self.seconds

    def cpu_us_per_item(self, part: str) -> float:
        return self.cpu_seconds.get(part, 0.0) * 1e6 / self.items


class ProcessorTimes:
    """The CPU time of processes by the part they play, from when it is made."""

    def __init__(self, **pids: list[int]) -> None:
        self._pids = pids
        self._before = self._now()

    def since(self) -> dict[str, float]:
        return {part: now - self._before[part] for part, now in self._now().items()}

    def _now(self) -> dict[str, float]:
        return {
            part: cpu_seconds(*(one for pid in pids for one in family(pid)))
            for part, pids in self._pids.items()
        }
