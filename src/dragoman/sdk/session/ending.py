"""What the end of a connection means to a session: go on over another one, or stop."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dragoman.errors import (
    DragomanError,
    Forbidden,
    InvalidMessage,
    PayloadTooLarge,
    RateLimited,
    SessionClosed,
    Unauthorized,
)
from dragoman.live.protocol import Error
from dragoman.sdk.refusals import with_remedy, without_advice
from dragoman.sdk.transport import NO_GOODBYE

TOO_MUCH = 4429
_ENDED_BY_ORDER = 1008


class SessionConnectionEnding(msgspec.Struct, frozen=True):
    """How a connection, or the attempt to make one, came to its end."""

    reason: str
    code: int = NO_GOODBYE
    refusal: Error | None = None
    """What the scheduler said instead of acknowledging the session."""
    in_peace: bool = False
    """The session was closed, and everything it had to say was heard."""


FINAL_CODES: Mapping[int, type[DragomanError]] = {
    1009: PayloadTooLarge,
    4400: InvalidMessage,
    4401: Unauthorized,
    4403: Forbidden,
    4409: SessionClosed,
}
"""Close codes after which another connection would end in the same way."""

_REMEDIES: Mapping[type[DragomanError], str] = {
    PayloadTooLarge: "send shorter pieces, or raise limits.max_frame_bytes",
    InvalidMessage: "correct what the session asks for",
    Unauthorized: "give a valid key (`dragoman keys create --role client` creates one)",
    Forbidden: "use a key with role client, and your own tenant",
    SessionClosed: "another program goes on with this session; open a new one",
    RateLimited: "try again later",
}


def final_error(ending: SessionConnectionEnding, *, was_open: bool) -> DragomanError | None:
    """The error to stop with, or None when the session may go on over another connection."""
    cause = FINAL_CODES.get(ending.code)
    if cause is None and ending.code == TOO_MUCH and not was_open:
        cause = RateLimited  # a scheduler that has no room for a session has none at once either
    remedy = None
    if cause is None and ending.code == _ENDED_BY_ORDER and was_open:
        cause, remedy = SessionClosed, "open a new one"
    if cause is None:
        return None
    refusal = ending.refusal
    happened = (refusal.message if refusal else ending.reason) or f"closed with {ending.code}"
    if cause is Unauthorized:
        happened = without_advice(happened)  # the client was given a `token`, and sends no header
    return cause(
        f"The scheduler ended the session: {with_remedy(happened, remedy or _REMEDIES[cause])}",
        details=(refusal.details if refusal else None) or {},
        retry_after_ms=refusal.retry_after_ms if refusal else None,
    )


def wait_asked_for_seconds(ending: SessionConnectionEnding) -> float:
    """How long the scheduler asked the client to wait, at least."""
    if ending.refusal is None or ending.refusal.retry_after_ms is None:
        return 0.0
    return ending.refusal.retry_after_ms / 1000
