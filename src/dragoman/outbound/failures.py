"""How a call to another server fails: whether to try again, and when."""

from __future__ import annotations

from dragoman import errors

MAX_MESSAGE_CHARACTERS = 2000
"""The longest message that is kept; a whole error page belongs into the server's log."""


class TargetError(errors.TargetError):
    """Raised when a model failed on a call; `retryable` tells whether another try may help.

    `answered_status` is the HTTP status of the answer, where the server answered with an error.
    """

    def __init__(self, message: str, *, retryable: bool = True, status: int | None = None) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.answered_status = status


class CalledTooOften(errors.RateLimited):
    """Raised when a server, a target or an evaluator asks to be called later.

    The wait costs no try.
    """

    def __init__(self, message: str = "", *, retry_after_seconds: float | None = None) -> None:
        super().__init__(
            message or "asked to be called later",
            retry_after_ms=None if retry_after_seconds is None else int(retry_after_seconds * 1000),
        )
        self.retry_after_seconds = retry_after_seconds


def shortened(message: str, characters: int = MAX_MESSAGE_CHARACTERS) -> str:
    """The message as plain text, cut where it is longer than is kept."""
    if len(message) <= characters:
        return str(message)  # such as a text node of an HTML library, which cannot be stored
    return message[: characters - 1] + "…"
