"""One connection from its first frame to its last: decode, handle, reply.

Written once, for every transport. A transport brings a handshake, a wire to write to and a feed
of frames; what happens in between is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Awaitable
from math import inf
from typing import Generic, TypeVar

from dragoman.errors import DragomanError, InternalError, InvalidMessage, RateLimited
from dragoman.ids import ConnectionId, new_id
from dragoman.live.gateway.admission import AdmissionRefused, Handshake, admit
from dragoman.live.gateway.connection import Connection, Encode
from dragoman.live.gateway.endpoint import Caller, Endpoint, Handler
from dragoman.live.gateway.wire import (
    MOST_BYTES_A_CHARACTER,
    NO_MESSAGE,
    STOOD_STILL,
    CloseCode,
    Feed,
    Frame,
    Wire,
    WireClosed,
    fitting_reason,
    is_larger,
)
from dragoman.live.protocol import NOT_PLAIN, Error, encoder
from dragoman.observability import get_logger

_log = get_logger(__name__)

M = TypeVar("M")

_ROUNDING_SECONDS = 1e-6
"""Far more than sums of times are off by, and far less than a message takes."""


async def serve_connection(
    endpoint: Endpoint[M],
    handshake: Handshake,
    wire: Wire,
    feed: Feed,
    *,
    encode: Encode | None = None,
) -> None:
    """Let one caller in, and stay with it until its connection is over."""
    try:
        sub, caller = await admit(endpoint, handshake)
        handler = _make_handler(endpoint, caller)
    except AdmissionRefused as refused:
        waiting = wire.close(refused.code, fitting_reason(refused.reason))
        if waiting is not None:
            await waiting
        return
    connection = Connection(
        ConnectionId(new_id(endpoint.random, "c")),
        remote=handshake.remote,
        sub=sub,
        wire=wire,
        limits=endpoint.limits,
        encode=encode or encoder(sub),
    )
    endpoint.connections.add(endpoint.name, connection)
    stop_counting = endpoint.connections.count(caller.remote, caller.principal.key_id)
    stop_watching = endpoint.authenticator.watch(
        caller.principal, lambda: connection.close(CloseCode.UNAUTHORIZED, "the key was revoked")
    )
    end = WireClosed(CloseCode.DRAINING, "the server stopped")
    try:
        await _open(connection, handler)
        end = await feed(_Conversation(endpoint, connection, handler).handle)
    except BaseException:
        wire.abort()
        raise
    finally:
        stop_watching()
        end = await connection.ended(end)
        try:
            await handler.closed(end.code, end.reason)
        except Exception:
            _log.exception("handler_failed", connection_id=connection.id, at="closed")
        finally:
            stop_counting()
            endpoint.connections.remove(connection)


def _make_handler(endpoint: Endpoint[M], caller: Caller) -> Handler[M]:
    try:
        return endpoint.handler(caller)
    except Exception:
        _log.exception("handler_failed", endpoint=endpoint.name, at="creation")
        raise AdmissionRefused(
            CloseCode.INTERNAL_ERROR, "the connection could not be set up"
        ) from None


async def _open(connection: Connection, handler: Handler[M]) -> None:
    """Tell the handler of its connection; one that cannot begin is closed."""
    try:
        await handler.opened(connection)
    except Exception as error:
        _reply_failure(connection, error)
        connection.close(CloseCode.INTERNAL_ERROR, "the connection could not be set up")


class _Conversation(Generic[M]):
    """The frames of one connection, and what becomes of each."""

    __slots__ = (
        "_burst_seconds",
        "_connection",
        "_decoder",
        "_first",
        "_full_at",
        "_handler",
        "_max_frame_bytes",
        "_message_seconds",
        "_monotonic",
        "_read",
        "_stood_still",
        "_surely_fits",
    )

    def __init__(self, endpoint: Endpoint[M], connection: Connection, handler: Handler[M]) -> None:
        self._connection = connection
        self._handler = handler
        self._monotonic = endpoint.clock.monotonic
        self._stood_still = endpoint.stood_still
        per_second = endpoint.limits.messages_per_second
        self._message_seconds = 1.0 / per_second if per_second > 0 else 0.0
        self._burst_seconds = max(1.0, self._message_seconds) + _ROUNDING_SECONDS
        self._full_at = -inf
        self._max_frame_bytes = endpoint.limits.max_frame_bytes
        self._surely_fits = self._max_frame_bytes // MOST_BYTES_A_CHARACTER
        self._decoder = endpoint.decoder
        self._read = endpoint.decoder.reader(connection.sub)
        self._first = True

    def handle(self, frame: Frame) -> Awaitable[None] | None:
        """Do what the frame calls for; answers what to await where that has to wait."""
        connection = self._connection
        if connection.end is not None:
            return None
        if len(frame) > self._surely_fits and is_larger(frame, self._max_frame_bytes):
            connection.close(CloseCode.TOO_LARGE, f"a frame is over {self._max_frame_bytes} bytes")
            return None
        now = self._monotonic()
        # A bucket of a second's worth of messages: when it is full again. Mostly it is full.
        if self._full_at <= now:
            self._full_at = now + self._message_seconds
        elif self._full_at + self._message_seconds <= now + self._burst_seconds:
            self._full_at += self._message_seconds
        else:
            connection.send(_as_message(RateLimited("too many messages per second; send fewer")))
            connection.close(CloseCode.TOO_MANY, "too many messages per second")
            return None
        if self._stood_still is not None and self._stood_still(now):
            connection.close(CloseCode.DRAINING, STOOD_STILL)
            return None
        try:
            message = self._read(frame)
        except NOT_PLAIN:
            if frame is NO_MESSAGE:
                return None
            try:
                message = self._decoder.decode(frame, connection.sub)
            except InvalidMessage as error:
                first, self._first = self._first, False
                return _malformed(connection, self._handler, error, first=first)
        try:
            waits = connection.methods.get(type(message), self._receive)(message, now)
        except Exception as error:
            _reply_failure(connection, error)
            return None
        return None if waits is None else self._finish(waits)

    def _receive(self, message: M, now: float) -> Awaitable[None] | None:
        self._first = False
        return self._handler.received(message, now)

    async def _finish(self, waits: Awaitable[None]) -> None:
        try:
            await waits
        except Exception as error:
            _reply_failure(self._connection, error)


async def _malformed(
    connection: Connection, handler: Handler[M], error: InvalidMessage, *, first: bool
) -> None:
    """Answer a frame that is no message; a peer that begins with one is closed."""
    connection.send(_as_message(error))
    if first:
        connection.close(CloseCode.BAD_FIRST_MESSAGE, error.message)
    try:
        await handler.malformed(error)
    except Exception as failure:
        _reply_failure(connection, failure)


def _reply_failure(connection: Connection, error: Exception) -> None:
    """Tell the peer that its message failed; only what is not a refusal is the log's business."""
    if isinstance(error, DragomanError) and not isinstance(error, InternalError):
        connection.send(_as_message(error))
        return
    _log.exception("handler_failed", connection_id=connection.id)
    connection.send(_as_message(InternalError("the server failed on this message")))


def _as_message(error: DragomanError) -> Error:
    return Error(
        code=error.code,
        message=error.message,
        retry_after_ms=error.retry_after_ms,
        details=error.details or None,
    )
