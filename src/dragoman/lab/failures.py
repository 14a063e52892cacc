"""How a target or an evaluator fails: whether to try again, and what the row stores."""

from __future__ import annotations

import msgspec

from dragoman import errors

MAX_MESSAGE_CHARACTERS = 2000
"""The longest message that a row keeps; a whole error page belongs into the target's log."""


class Failure(msgspec.Struct, frozen=True):
    """What a row keeps of a failure; the code is one of the row codes."""

    code: str
    message: str
    retryable: bool = False
    tokens: int | None = None
    """What the call used up before it failed."""
    cost: float | None = None


class TargetError(errors.TargetError):
    """Raised when a target failed on a turn; `retryable` tells whether another try may help."""

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable


class EvaluatorError(errors.EvaluatorError):
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


class RateLimited(errors.RateLimited):
    """Raised when a target or an evaluator asks to be called later; the wait costs no try."""

    def __init__(self, message: str = "", *, retry_after_seconds: float | None = None) -> None:
        super().__init__(
            message or "asked to be called later",
            retry_after_ms=None if retry_after_seconds is None else int(retry_after_seconds * 1000),
        )
        self.retry_after_seconds = retry_after_seconds


class Revoked(Exception):
    """Raised when the lease on an item is lost: its worker stops and writes nothing more."""


def failure_of(error: errors.DragomanError) -> Failure:
    """The row's record of an error."""
    return Failure(
        error.code,
        shortened(error.message),
        retryable=isinstance(error, TargetError | EvaluatorError) and error.retryable,
        tokens=error.tokens if isinstance(error, EvaluatorError) else None,
        cost=error.cost if isinstance(error, EvaluatorError) else None,
    )


def shortened(message: str, characters: int = MAX_MESSAGE_CHARACTERS) -> str:
    """The message, cut where it is longer than a row keeps."""
    if len(message) <= characters:
        return message
    return message[: characters - 1] + "…"
