"""When a server that refuses a call asks to be called again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from dragoman.outbound.failures import CalledTooOften, shortened

TOO_MANY_REQUESTS = 429


def retry_after_seconds(headers: Mapping[str, str], now_ms: int) -> float | None:
    """How long the server asks to wait: seconds, milliseconds, or until a date; None if unsaid.

    Header names are in lower case.
    """
    if (exact := seconds_in(headers.get("retry-after-ms"))) is not None:
        return exact / 1000
    told = headers.get("retry-after", "")
    if (seconds := seconds_in(told)) is not None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(told).timestamp() - now_ms / 1000)
    except (ValueError, OverflowError):
        return None


def refusal_in(error: BaseException, now_ms: int) -> CalledTooOften | None:
    """The rate limit that a client library's exception reports; None for any other failure.

    Libraries put the status into the exception (``status_code``, ``status``, ``code``) or into its
    ``response``, and the headers beside it.
    """
    for holder in (error, getattr(error, "response", None)):
        if holder is not None and TOO_MANY_REQUESTS in _statuses(holder):
            told = f"{type(error).__name__}: {shortened(str(error))}"
            return CalledTooOften(told, retry_after_seconds=_asked_seconds(error, now_ms))
    return None


def _statuses(holder: object) -> list[object]:
    return [getattr(holder, name, None) for name in ("status_code", "status", "code")]


def _asked_seconds(error: BaseException, now_ms: int) -> float | None:
    told = getattr(error, "retry_after", None)
    if (seconds := seconds_in(told)) is not None:
        return seconds
    for holder in (getattr(error, "response", None), error):
        headers = getattr(holder, "headers", None)
        try:
            lower = {str(name).lower(): str(value) for name, value in dict(headers or {}).items()}
        except (TypeError, ValueError):
            continue
        if (asked := retry_after_seconds(lower, now_ms)) is not None:
            return asked
    return None


def seconds_in(told: object) -> float | None:
    """A time to wait, from whatever was said; None if it is none."""
    if not isinstance(told, int | float | str):
        return None
    try:
        number = float(told)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and number >= 0 else None
