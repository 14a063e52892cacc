"""What each kind of database server does in its own way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine

from dragoman.errors import StoreError
from dragoman.store.interface import Notifications, StoreServerFacts


class ServerKind(ABC):
    """One database on a server: how to reach it, and what its errors mean."""

    name: str
    """The database as messages name it: where it is, without password and options."""
    product: str
    """What the server is called."""
    backup_command: str
    """How to copy the database with the server's own tool."""
    remedies: ClassVar[Mapping[str, str]]
    """What to do about a server that refuses a connection, by error code."""
    away: ClassVar[tuple[str, ...]]
    """How the codes begin of a server that stops, starts, is overloaded or cut the connection."""
    races: ClassVar[Mapping[str, str]]
    """Codes of a transaction that lost a race and was undone: it may simply be run again."""

    silence_seconds: float
    """How long a process may fall silent within a transaction: what it locked, others wait for.

    One that was killed has its connections closed by the system. One that is paused, or whose
    machine sleeps, would hold its locks for as long as that lasts.
    """

    # --- connections ------------------------------------------------------------------------------

    @abstractmethod
    def passing_engine(self) -> AsyncEngine:
        """An engine that opens a connection each time and never keeps one."""

    @abstractmethod
    def writing_engine(self, connections: int) -> AsyncEngine:
        """An engine that keeps up to so many connections open."""

    @abstractmethod
    def reading_engine(self, connections: int) -> AsyncEngine:
        """The same, for transactions that see one moment and cannot write."""

    @abstractmethod
    def wait_to_alter(self, connection: sa.Connection) -> None:
        """Wait until no other process alters the schema, and keep others out."""

    @abstractmethod
    def facts(self, connection: sa.Connection) -> StoreServerFacts:
        """What the server says of itself."""

    def notifications(self) -> Notifications | None:
        """Messages between the processes that use the database; None where it carries none."""
        return None

    # --- errors -----------------------------------------------------------------------------------

    @abstractmethod
    def code_of(self, error: BaseException) -> str:
        """The server's code for the error; empty when it did not come from there."""

    @abstractmethod
    def reason(self, error: BaseException) -> str:
        """Why, in the server's words, or by its code where the words would quote values."""

    @abstractmethod
    def forget_values(self, error: DBAPIError) -> None:
        """Remove what users said from an error: a traceback in the log would show it."""

    def refusal_of_value(self, error: DBAPIError) -> Exception | None:
        """The caller's error when a value cannot be stored at all; None for other errors."""
        return None

    def lost_race(self, error: BaseException) -> str | None:
        """How the transaction lost a race with another; None when it did not."""
        return self.races.get(self.code_of(error)) if isinstance(error, DBAPIError) else None

    def cannot_connect(self, error: BaseException) -> StoreError:
        """The sentence for a server that cannot be reached or refuses the login."""
        usual = f"check that {self.product} runs there and that store.database_url is right"
        remedy = self.remedies.get(self.code_of(error), usual)
        return _passing(
            StoreError(
                f"The database {self.name} cannot be reached ({self.reason(error)}); {remedy}."
            )
        )

    def cannot_use(self, error: BaseException) -> StoreError:
        """The sentence for a database whose tables cannot be looked at or changed."""
        return StoreError(
            f"The database {self.name} cannot be used ({self.reason(error)}); check that its user "
            "owns it, and restore a backup of a damaged one."
        )

    def connection_lost(self, *, committing: bool) -> StoreError:
        """The sentence for a connection that broke in the middle of a transaction."""
        outcome = (
            "it is not known whether the write was stored, so look before you write it again"
            if committing
            else "nothing of it was stored, so it may be tried again"
        )
        lost = StoreError(f"The connection to the database {self.name} was lost; {outcome}.")
        return _passing(lost)

    def for_caller(self, error: BaseException) -> BaseException:
        """A broken constraint and a value that cannot be are the caller's; the rest is ours."""
        if not isinstance(error, DBAPIError):
            return error
        self.forget_values(error)
        if isinstance(error, IntegrityError):
            return error
        refused = self.refusal_of_value(error)
        if refused is not None:
            return refused
        failure = StoreError(f"The database refused a statement ({self.reason(error)}).")
        failure.__cause__ = error
        is_away = self.code_of(error).startswith(self.away)
        return _passing(failure) if is_away or self.lost_race(error) else failure


def _passing(error: StoreError) -> StoreError:
    error.is_passing = True
    return error
