"""What functions of a program may return or raise."""

from __future__ import annotations

from dragoman.lab.evaluators import Score
from dragoman.lab.failures import CalledTooOften as Refusal
from dragoman.lab.failures import TargetError
from dragoman.lab.targets import FunctionOutput as Output
from dragoman.lab.targets import seconds_in

__all__ = ["Output", "RateLimited", "Score", "TargetError"]


class RateLimited(Refusal):
    """Raised by a function whose service asks to be called later; the wait costs no try.

    `retry_after` is in seconds; without it, or when it is no time to wait, the pauses between
    calls grow.
    """

    def __init__(self, message: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(message, retry_after_seconds=seconds_in(retry_after))
