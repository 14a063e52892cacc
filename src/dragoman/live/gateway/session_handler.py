"""The client's end of a connection: an init first, then speech one way and results the other."""

from __future__ import annotations

from dragoman.auth import Principal, effective_tenant
from dragoman.errors import DragomanError, Forbidden, InvalidMessage, RateLimited, ServerDraining
from dragoman.ids import ConnectionId
from dragoman.live.gateway.closing import CloseCode
from dragoman.live.gateway.connection import Connection
from dragoman.live.gateway.endpoint import Caller
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

    @property
    def id(self) -> ConnectionId:
        return self._connection.id

    def send(self, message: SchedulerToClient) -> bool:
        return self._connection.send(message)

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


class SessionHandler:
    """Handles one client's connection."""

    def __init__(self, caller: Caller, sessions: Sessions) -> None:
        self._principal: Principal = caller.principal
        self._sessions = sessions
        self._link: SessionLink | None = None
        self._connection: Connection | None = None
        self._session: Session | None = None

    async def opened(self, connection: Connection) -> None:
        self._connection = connection
        self._link = SessionLink(connection)

    async def received(self, message: ClientToScheduler) -> None:
        session = self._session
        if session is None:
            await self._begin(message)
            return
        self._sessions.heard(session)
        match message:
            case AudioChunk():
                await session.audio(message)
            case Utterance():
                try:
                    await session.utterance(message)
                except DragomanError as error:
                    self._refuse_utterance(message, error)
            case ClientHeartbeat():
                await session.heartbeat(message.last_delivery_seq)
            case SessionClose():
                await session.close()
            case SessionInit():
                raise InvalidMessage("This connection has a session already; open another one.")

    async def malformed(self, error: InvalidMessage) -> None:
        """The client was told; a session survives what makes no sense."""

    async def closed(self, code: int, reason: str) -> None:
        if self._session is not None and self._link is not None:
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
        except DragomanError as error:
            connection.send(_error(error))
            connection.close(_close_code(error), error.message)

    def _refuse_utterance(self, message: Utterance, error: DragomanError) -> None:
        if self._connection is not None:
            self._connection.send(_error(error, message.utterance_index, message.request_id))


def _close_code(error: DragomanError) -> CloseCode:
    """How a connection ends that could not have a session."""
    for kind, code in _CLOSE_CODES.items():
        if isinstance(error, kind):
            return code
    return CloseCode.INTERNAL_ERROR


def _error(
    error: DragomanError, utterance_index: int | None = None, request_id: str | None = None
) -> Error:
    return Error(
        error.code,
        error.message,
        retry_after_ms=error.retry_after_ms,
        details=error.details or None,
        utterance_index=utterance_index,
        request_id=request_id,
    )
