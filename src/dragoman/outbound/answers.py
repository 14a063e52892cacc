"""An HTTP answer as it came in, and what its status means."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dragoman.outbound.failures import CalledTooOften, TargetError, shortened
from dragoman.outbound.retry_after import TOO_MANY_REQUESTS, retry_after_seconds

_UNAVAILABLE = 503
_WORTH_ANOTHER_TRY = frozenset({408, 425, 500, 502, 503, 504, 520, 522, 524, 529})
_SHOWN_CHARACTERS = 300


class HttpAnswer(msgspec.Struct, frozen=True):
    """An answer as it came in; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


def require_success(
    answer: HttpAnswer, now_ms: int, *, said: str | None = None, who: str = "target"
) -> None:
    """Raise `CalledTooOften` or `TargetError` unless the answer is a success.

    `said` is what the server says went wrong, where the caller knows where that stands.
    """
    status = answer.status
    if 200 <= status < 300:
        return
    told = f"The {who} answered {status}: {said or shown_answer(answer)}"
    wait_seconds = retry_after_seconds(answer.headers, now_ms)
    if status == TOO_MANY_REQUESTS or (status == _UNAVAILABLE and wait_seconds is not None):
        raise CalledTooOften(told, retry_after_seconds=wait_seconds)
    if 300 <= status < 400:
        raise TargetError(
            f"The {who} answered with a redirect ({status}), which is not followed; "
            "set its `url` to where it leads.",
            retryable=False,
        )
    raise TargetError(told, retryable=status in _WORTH_ANOTHER_TRY, status=status)


def shown_answer(answer: HttpAnswer) -> str:
    """The beginning of the answer, as a message quotes it."""
    text = answer.content[: 4 * _SHOWN_CHARACTERS].decode(errors="replace").strip()
    return shortened(text, _SHOWN_CHARACTERS) or "(empty)"
