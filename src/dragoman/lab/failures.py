"""How a target or an evaluator fails: whether to try again, and what the row stores."""

from __future__ import annotations

import msgspec

from dragoman import errors
from dragoman.outbound import CalledTooOften, TargetError, shortened

__all__ = [
    "CalledTooOften",
    "EvaluatorFailure",
    "Failure",
    "Revoked",
    "TargetError",
    "failure_of",
    "shortened",
]


class Failure(msgspec.Struct, frozen=True):
    """What a row keeps of a failure; the code is one of the row codes."""

    code: str
    message: str
    retryable: bool = False
    tokens: int | None = None
    """What the call used up before it failed."""
    cost: float | None = None


class EvaluatorFailure(errors.EvaluatorError):
    """Raised when an evaluator failed; `retryable` tells whether another try may help.

    `tokens` and `cost` are what it used up before it failed: they are paid for all the same.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = True,
        tokens: int | None = None,
        cost: float | None = None,
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.tokens = tokens
        self.cost = cost


class Revoked(Exception):
    """Raised when the lease on an item is lost: its worker stops and writes nothing more."""


def failure_of(error: errors.DragomanError) -> Failure:
    """The row's record of an error."""
    return Failure(
        error.code,
        shortened(error.message),
        retryable=isinstance(error, TargetError | EvaluatorFailure) and error.retryable,
        tokens=error.tokens if isinstance(error, EvaluatorFailure) else None,
        cost=error.cost if isinstance(error, EvaluatorFailure) else None,
    )
