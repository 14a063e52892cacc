"""The interface of databases: consistent reads, and writes that happen whole or not at all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec
import sqlalchemy as sa
from sqlalchemy.sql.compiler import SQLCompiler

Result = TypeVar("Result")

Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]]


class StoreConnection:
    """What a submitted function may do with the database: run statements.

    It cannot commit or roll back, because its transaction may be shared with other submitters.
    A statement that fails should end the function: some databases refuse the ones after it.
    """

    __slots__ = ("_connection",)

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    @property
    def dialect(self) -> str:
        """The database's kind, such as ``sqlite``, for the few statements that differ."""
        return self._connection.dialect.name

    def execute(
        self, statement: sa.Executable, parameters: Parameters | None = None
    ) -> sa.CursorResult[Any]:
        """Run one statement, or the same statement for each of a list of parameters."""
        return self._connection.execute(statement, parameters)

    def insert(self, statement: sa.Insert, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert many rows, each with a value for every column of the table, in their order.

        The values reach the driver as they are, which spares a busy writer much of the work.
        """
        self._connection.exec_driver_sql(_text_of(statement, self._connection.dialect), list(rows))


@lru_cache(maxsize=256)
def _text_of(statement: sa.Insert, dialect: sa.Dialect) -> str:
    compiled = statement.compile(dialect=dialect)
    assert isinstance(compiled, SQLCompiler)
    assert compiled.positiontup == list(statement.table.columns.keys()), "drivers count from left"
    return str(compiled)


Work = Callable[[StoreConnection], Result]
"""A plain function that runs its statements and returns plain values, never an open cursor.

It waits for nothing but its statements, and changes nothing outside the database: one that lost a
race with another transaction is undone and called again.
"""


class Store(ABC):
    """An open database. Every call is carried out whole or not at all."""

    @abstractmethod
    async def write(self, work: Work[Result], *, urgent: bool = False) -> Result:
        """Run the function in a transaction, and return its result once it is durable.

        What the function raises undoes its own statements and is raised here. A caller that is
        cancelled tears nothing: the write goes on by itself and stays whole. An `urgent` write has
        a connection that only urgent writes use: it stands in line behind no other work of this
        process. It is for small writes that must not come late, such as the renewal of a lease.
        """

    @abstractmethod
    async def read(self, work: Work[Result]) -> Result:
        """Run the function on one consistent snapshot of the database; it cannot write."""

    @abstractmethod
    async def close(self) -> None:
        """Carry out what was submitted, then close the database. May be called twice."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


class Notifications(ABC):
    """Short messages between the processes that use one database.

    What is told while no process listens is lost: a message is a hint, never a fact.
    """

    @abstractmethod
    async def tell(self, messages: Sequence[tuple[str, str]]) -> None:
        """Send messages, each on its channel, to all who listen; raises StoreError."""

    @abstractmethod
    def listen(self, channels: Sequence[str]) -> AsyncGenerator[tuple[str, str]]:
        """What is told on these channels from now on; raises StoreError when that ends."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of the server."""


class StoreServerFacts(msgspec.Struct, frozen=True):
    """What a database server says of itself."""

    product: str
    version: str
    now_ms: int


class Database(ABC):
    """A database that may be set up, looked at and opened. It prints as messages name it."""

    @abstractmethod
    def inspect(self, look: Callable[[sa.Connection], Result]) -> Result | None:
        """Run the function on a connection; None when there is no database to look at yet."""

    @abstractmethod
    def alter(self, change: Callable[[sa.Connection], Result]) -> Result:
        """Run the function in one transaction while no other process alters the database."""

    @abstractmethod
    def copy_to(self, target: Path) -> None:
        """Write a consistent copy to a new file, where the database is one."""

    @abstractmethod
    def find_damage(self) -> list[str]:
        """What the database finds wrong with its own files."""

    @abstractmethod
    def ask_server(self) -> StoreServerFacts | None:
        """What the server says of itself; None when the database is a file."""

    @abstractmethod
    def open(self, silence_seconds: float | None = None) -> Store:
        """Open it for work, on the running event loop.

        `silence_seconds`: how long a process may fall silent within a transaction, at most.
        """

    def notifications(self) -> Notifications | None:
        """Messages between the processes that use it; None where it carries none."""
        return None

    @abstractmethod
    def __str__(self) -> str:
        """The database as a person knows it, without passwords."""
