"""The client's end of a connection: an init first, then speech one way and results the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from dragoman.auth import Principal, effective_tenant
from dragoman.errors import DragomanError, Forbidden, InvalidMessage, RateLimited, ServerDraining
from dragoman.ids import ConnectionId
from dragoman.live.gateway.connection import Connection
from dragoman.live.gateway.endpoint import Caller
from dragoman.live.gateway.wire import CloseCode
from dragoman.live.protocol import (
    AudioChunk,
    ClientHeartbeat,
    ClientToScheduler,
    Error,
    SchedulerToClient,
    SessionClose,
    SessionInit,
    Utterance,
)
from dragoman.live.sessions import Session, Sessions

_RETRY_MS = 1000

_CLOSE_CODES: dict[type[DragomanError], CloseCode] = {
    InvalidMessage: CloseCode.BAD_FIRST_MESSAGE,
    Forbidden: CloseCode.FORBIDDEN,
    RateLimited: CloseCode.TOO_MANY,
    ServerDraining: CloseCode.DRAINING,
}


class SessionLink:
    """A client's connection, as its session sees it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.send: Callable[[SchedulerToClient], bool] = connection.send

    @property
    def id(self) -> ConnectionId:
        return self._connection.id

    def superseded(self) -> None:
        self._connection.close(CloseCode.SUPERSEDED, "the session was resumed elsewhere")

    def timed_out(self) -> None:
        self._connection.close(CloseCode.HEARTBEAT_TIMEOUT, "nothing was heard in time")

    def overrun(self, reason: str) -> None:
        self._connection.close(CloseCode.TOO_SLOW, reason)

    def finished(self) -> None:
        self._connection.close(CloseCode.NORMAL, "the session is closed")

    def ended(self) -> None:
        self._connection.close(CloseCode.POLICY, "the session was ended by order")

    def draining(self) -> None:
        self._connection.close(CloseCode.DRAINING, "the server is shutting down; resume elsewhere")


class WaitingSockets:
    """Client sockets on which no session was opened yet: so many, each for so long."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._timers: dict[ConnectionId, asyncio.TimerHandle] = {}

    def enter(self, link: SessionLink) -> None:
        """A socket waits for its session_init; raises RateLimited when too many do."""
        if len(self._timers) >= self._most:
            raise RateLimited(
                f"{self._most} sockets wait for their session_init, which is limits.max_sessions; "
                "try again later, or at another server.",
                retry_after_ms=_RETRY_MS,
            )
        loop = asyncio.get_running_loop()
        self._timers[link.id] = loop.call_later(self._seconds, link.timed_out)

    def leave(self, link: SessionLink) -> None:
        """The socket has a session, or is closed; harmless when it does not wait."""
        timer = self._timers.pop(link.id, None)
        if timer is not None:
            timer.cancel()


class SessionHandler:
    """Handles one client's connection."""

    def __init__(self, caller: Caller, sessions: Sessions, waiting: WaitingSockets) -> None:
        self._principal: Principal = caller.principal
        self._sessions = sessions
        self._waiting = waiting
        self._link: SessionLink | None = None
        self._connection: Connection | None = None
        self._session: Session
        """There once it was opened."""
        self._has_session = False

    async def opened(self, connection: Connection) -> None:
        self._connection = connection
        self._link = link = SessionLink(connection)
        try:
            self._waiting.enter(link)
        except RateLimited as error:
            connection.send(_error(error))
            connection.close(_close_code(error), error.message)

    def received(self, message: ClientToScheduler, now: float) -> Awaitable[None]:
        return self._begin(message)

    def _audio(self, message: AudioChunk, now: float) -> None:
        session = self._session
        session.last_heard = now
        session.input.audio(message, now)

    def _utterance(self, message: Utterance, now: float) -> None:
        session = self._session
        session.last_heard = now
        try:
            session.utterance(message, now)
        except DragomanError as error:
            self._refuse_utterance(message, error)

    def _heartbeat(self, message: ClientHeartbeat, now: float) -> None:
        self._session.last_heard = now
        self._session.heartbeat(message.last_delivery_seq)

    def _close(self, message: SessionClose, now: float) -> None:
        self._session.last_heard = now
        self._session.close()

    def _again(self, message: SessionInit, now: float) -> None:
        self._session.last_heard = now
        raise InvalidMessage("This connection has a session already; open another one.")

    async def malformed(self, error: InvalidMessage) -> None:
        """The client was told; a session survives what makes no sense."""

    async def closed(self, code: int, reason: str) -> None:
        if self._link is None:
            return
        self._waiting.leave(self._link)
        if self._has_session:
            self._sessions.disconnected(self._session, self._link)

    async def _begin(self, message: ClientToScheduler) -> None:
        link, connection = self._link, self._connection
        if link is None or connection is None:
            return
        try:
            if not isinstance(message, SessionInit):
                raise InvalidMessage("The first message of a client is session_init; send that.")
            tenant = effective_tenant(self._principal, message.tenant_id)
            self._session = await self._sessions.open(message, tenant, link)
            self._has_session = True
            connection.methods = {
                AudioChunk: self._audio,
                Utterance: self._utterance,
                ClientHeartbeat: self._heartbeat,
                SessionClose: self._close,
                SessionInit: self._again,
            }
            self._waiting.leave(link)
        except DragomanError as error:
            connection.send(_error(error))
            connection.close(_close_code(error), error.message)

    def _refuse_utterance(self, message: Utterance, error: DragomanError) -> None:
        if self._connection is not None:
            self._connection.send(_error(error, message))


def _close_code(error: DragomanError) -> CloseCode:
    """How a connection ends that could not have a session."""
    for kind, code in _CLOSE_CODES.items():
        if isinstance(error, kind):
            return code
    return CloseCode.INTERNAL_ERROR


def _error(error: DragomanError, utterance: Utterance | None = None) -> Error:
    """The error as its client reads it, with what tells the utterance that it is about."""
    return Error(
        error.code,
        error.message,
        retry_after_ms=error.retry_after_ms,
        details=error.details or None,
        utterance_index=utterance.utterance_index if utterance is not None else None,
        tgt_lang=utterance.tgt_lang if utterance is not None else None,
        request_id=utterance.request_id if utterance is not None else None,
    )
