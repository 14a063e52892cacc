"""The events of a session besides results, for its `on_event`."""

from __future__ import annotations

import msgspec

from dragoman.ids import SessionId
from dragoman.live.protocol import AsrPartial, Backpressure, Error, UiEvent


class SessionOpened(msgspec.Struct, frozen=True):
    """There is a connection, and the scheduler knows the session."""

    session_id: SessionId
    resumed: bool
    """It is the session from before the connection was lost."""
    restarted: bool
    """The scheduler had lost the session; this one goes on with what was not stored."""


class SessionInterrupted(msgspec.Struct, frozen=True):
    """The connection is lost; the client looks for the scheduler by itself."""

    code: int
    reason: str
    retry_seconds: float


SessionEvent = SessionOpened | SessionInterrupted | AsrPartial | UiEvent | Backpressure | Error
