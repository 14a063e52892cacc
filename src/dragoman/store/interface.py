"""What every database behind Dragoman offers: reads of one moment, and writes that are whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import sqlalchemy as sa

Result = TypeVar("Result")

Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]]


class Connection:
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


Work = Callable[[Connection], Result]
"""A plain function that runs its statements and returns plain values, never an open cursor."""


class Store(ABC):
    """An open database. Every call is carried out whole or not at all."""

    @abstractmethod
    async def write(self, work: Work[Result]) -> Result:
        """Run the function in a transaction, and return its result once it is durable.

        What the function raises undoes its own statements and is raised here. A caller that is
        cancelled tears nothing: the write goes on by itself and stays whole.
        """

    @abstractmethod
    async def read(self, work: Work[Result]) -> Result:
        """Run the function on one consistent snapshot of the database; it cannot write."""

    @abstractmethod
    async def close(self) -> None:
        """Carry out what was submitted, then let go of the database. May be called twice."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
