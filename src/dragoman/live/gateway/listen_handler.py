"""A listener's end of a connection: nothing comes in, the results of a speaker's session go out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs

import msgspec

from dragoman.auth import ApiKey, Authenticator, Principal, Role, may_see
from dragoman.errors import (
    DependencyDown,
    DragomanError,
    InvalidMessage,
    InvalidSession,
    RateLimited,
    SessionElsewhere,
    Unauthorized,
)
from dragoman.ids import SessionId, TenantId
from dragoman.live.gateway.connection import Connection
from dragoman.live.gateway.endpoint import Caller
from dragoman.live.gateway.wire import CloseCode, Frame
from dragoman.live.protocol import (
    ClientHeartbeat,
    ClientToScheduler,
    Error,
    ListenAck,
    ListenEnd,
    SessionState,
    normal_language,
)
from dragoman.live.sessions import Form, Session, Sessions, is_listen_token
from dragoman.randomness import is_same

_LISTENER = Principal(key_id=None, role=Role.CLIENT, tenant=TenantId(""))
"""One who has the token of a session, and no key. The handler checks the token."""

_CLOSE_CODES: dict[type[DragomanError], CloseCode] = {
    InvalidMessage: CloseCode.BAD_FIRST_MESSAGE,
    Unauthorized: CloseCode.UNAUTHORIZED,
    RateLimited: CloseCode.TOO_MANY,
    InvalidSession: CloseCode.POLICY,
    SessionElsewhere: CloseCode.POLICY,
    DependencyDown: CloseCode.DRAINING,
}

Elsewhere = Callable[[SessionId], Awaitable[str | None]]
"""The address of the instance that has a session; None: no other has it."""


class Wanted(msgspec.Struct, frozen=True):
    """What a listener asks for, in the address that it connects to."""

    session_id: SessionId
    token: str | None
    tgt_lang: str | None = None
    audio: bool = False
    last_delivery_seq: int | None = None


def wanted_in(session_id: str, query: str, key: ApiKey | None) -> Wanted | InvalidMessage:
    """What an address asks for, or what is wrong with it."""
    given = {name: values[-1] for name, values in parse_qs(query).items()}
    audio, seq = given.get("audio", "false").lower(), given.get("last_delivery_seq")
    if audio not in ("true", "false"):
        return InvalidMessage(f"`audio` is {audio[:50]!r}; write true or false.")
    if seq is not None and not (seq.isascii() and seq.isdigit() and len(seq) < 16):
        return InvalidMessage(f"`last_delivery_seq` is {seq[:50]!r}; give a number from 0.")
    return Wanted(
        SessionId(session_id),
        None if key is None else key.reveal(),
        given.get("tgt_lang"),
        audio == "true",
        None if seq is None else int(seq),
    )


class ListenAuthenticator(Authenticator):
    """Lets those in who bring the token of a session; for others, the server's keys decide."""

    def __init__(self, keys: Authenticator) -> None:
        self._keys = keys

    async def authenticate(self, key: ApiKey | None, remote_address: str) -> Principal:
        if key is not None and is_listen_token(key.reveal()):
            return _LISTENER
        return await self._keys.authenticate(key, remote_address)

    def watch(self, principal: Principal, on_revoked: Callable[[], None]) -> Callable[[], None]:
        return self._keys.watch(principal, on_revoked)

    def count_wrong(self, remote_address: str) -> None:
        self._keys.count_wrong(remote_address)

    async def __aexit__(self, *_: object) -> None:
        return None


class ListenHandler:
    """Handles one listener's connection."""

    def __init__(
        self,
        caller: Caller,
        wanted: Wanted | InvalidMessage,
        sessions: Sessions,
        elsewhere: Elsewhere,
        count_wrong: Callable[[str], None],
    ) -> None:
        """count_wrong counts a token that no session has for an address."""
        self._principal = caller.principal
        self._remote = caller.remote
        self._count_wrong = count_wrong
        self._wanted = wanted
        self._sessions = sessions
        self._elsewhere = elsewhere
        self._session: Session | None = None
        self._listener: _Listener | None = None

    async def opened(self, connection: Connection) -> None:
        try:
            if isinstance(self._wanted, InvalidMessage):
                raise self._wanted
            session = await self._find(self._wanted)
            self._listener = _Listener(connection, session, self._wanted)
            self._session = session
            session.let_listen(self._listener, self._wanted.last_delivery_seq)
        except DragomanError as error:
            connection.send(
                Error(
                    error.code,
                    error.message,
                    retry_after_ms=error.retry_after_ms,
                    details=error.details or None,
                )
            )
            code = _CLOSE_CODES.get(type(error), CloseCode.INTERNAL_ERROR)
            connection.close(code, error.message)

    def received(self, message: ClientToScheduler, now: float) -> None:
        if not isinstance(message, ClientHeartbeat):
            raise InvalidMessage("A listener need not send anything; the speaker does.")

    async def malformed(self, error: InvalidMessage) -> None:
        """The listener was told, and goes on listening."""

    async def closed(self, code: int, reason: str) -> None:
        session, listener = self._session, self._listener
        if session is not None and listener is not None:
            session.stops_listening(listener)

    async def _find(self, wanted: Wanted) -> Session:
        """The session, if this listener may hear it."""
        session = self._sessions.find(wanted.session_id)
        if session is None or session.state is SessionState.OVER:
            url = await self._elsewhere(wanted.session_id)
            if url is not None:
                raise SessionElsewhere(
                    f"Session {wanted.session_id} is at another instance; connect to details.url.",
                    details={"url": url},
                )
            if self._principal is _LISTENER:
                self._count_wrong(self._remote)
            raise _unknown(wanted.session_id)
        if self._principal is _LISTENER:
            if wanted.token is None or not is_same(wanted.token, session.listen_token):
                self._count_wrong(self._remote)
                raise Unauthorized(
                    "The token is not this session's; ask its speaker, who gets it as listen_token "
                    "in session_init_ack."
                )
        elif not may_see(self._principal, session.tenant):
            raise _unknown(wanted.session_id)
        return session


class _Listener:
    """A listener's connection, as the session sees it."""

    __slots__ = ("_connection", "_session", "_tgt_lang", "form", "send_frame")

    def __init__(self, connection: Connection, session: Session, wanted: Wanted) -> None:
        self._connection = connection
        self._session = session
        self._tgt_lang = _served(session, wanted.tgt_lang)
        self.form = Form(normal_language(self._tgt_lang), connection.sub, wanted.audio)
        self.send_frame: Callable[[Frame], bool] = connection.send_frame

    def admitted(self, last_delivery_seq: int, *, complete: bool) -> None:
        session = self._session
        self._connection.send(
            ListenAck(
                session_id=session.session_id,
                src_lang=session.init.src_lang,
                tgt_lang=self._tgt_lang,
                tgt_langs=session.tgt_langs,
                last_delivery_seq=last_delivery_seq,
                complete=complete,
            )
        )

    def finished(self) -> None:
        self._connection.send(ListenEnd())
        self._connection.close(CloseCode.NORMAL, "the session is over")

    def moved(self) -> None:
        self._connection.close(CloseCode.DRAINING, "the session goes on elsewhere; connect again")


def _served(session: Session, asked: str | None) -> str:
    """The session's own spelling of the language that a listener asks for."""
    served = session.tgt_langs
    if asked is None:
        return served[0]
    for language in served:
        if normal_language(language) == normal_language(asked):
            return language
    raise InvalidMessage(
        f"The session is not translated to {asked[:50]!r}; listen in {', '.join(served)}.",
        details={"field": "tgt_lang", "served": list(served)},
    )


def _unknown(session_id: SessionId) -> InvalidSession:
    return InvalidSession(f"There is no session {session_id}; it may have ended.")
