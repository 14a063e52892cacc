"""One function in one transaction on a server, and what became of it."""

from __future__ import annotations

from typing import Generic

import sqlalchemy as sa

from dragoman.store.interface import Result, StoreConnection, Work


class TransactionOutcome(Generic[Result]):
    """The value that a committed transaction gave, or the error that undid it."""

    __slots__ = ("_value", "committing", "error", "lost")

    def __init__(self) -> None:
        self._value: list[Result] = []
        self.error: BaseException | None = None
        self.committing = False
        """Whether the function was done, and only its COMMIT could still fail."""
        self.lost = False
        """Whether the connection broke."""

    def succeed(self, value: Result) -> None:
        self._value = [value]

    @property
    def value(self) -> Result:
        return self._value[0]


def run_whole(connection: sa.Connection, work: Work[Result]) -> TransactionOutcome[Result]:
    """Run the function and commit, or roll back; whatever goes wrong is in the outcome."""
    outcome: TransactionOutcome[Result] = TransactionOutcome()
    try:
        with connection.begin():
            value = work(StoreConnection(connection))
            outcome.committing = True
        outcome.succeed(value)
    except BaseException as error:
        # Whatever it is belongs to the caller, and the connection goes back to the pool in order.
        outcome.error = error
        outcome.lost = connection.invalidated
    return outcome
