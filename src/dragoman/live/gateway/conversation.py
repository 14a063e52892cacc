"""One connection from its first frame to its last: decode, handle, reply.

Written once, for every transport. A transport brings a handshake, a wire to write to and a way to
read; what happens in between is the same everywhere.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from dragoman.errors import DragomanError, InternalError, InvalidMessage, RateLimited
from dragoman.ids import ConnectionId, new_id
from dragoman.live.gateway.admission import Handshake, Refused, admit
from dragoman.live.gateway.closing import CloseCode, Closed, fitting_reason
from dragoman.live.gateway.connection import Connection, Encode
from dragoman.live.gateway.endpoint import Caller, Endpoint, Handler
from dragoman.live.gateway.limits import TokenBucket
from dragoman.live.gateway.wire import Receive, Wire, is_larger
from dragoman.live.protocol import Error, encode
from dragoman.observability import get_logger

_log = get_logger(__name__)

M = TypeVar("M")

_FRAMES_PER_TURN = 64
"""After so many frames of one connection the others get a turn, however fast they come."""


async def serve_connection(
    endpoint: Endpoint[M],
    handshake: Handshake,
    wire: Wire,
    receive: Receive,
    *,
    encode: Encode = encode,
) -> None:
    """Let one caller in, and stay with it until its connection is over."""
    try:
        sub, caller = await admit(endpoint, handshake)
        handler = _make_handler(endpoint, caller)
    except Refused as refused:
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
        encode=encode,
    )
    endpoint.connections.add(endpoint.name, connection)
    stop_watching = endpoint.authenticator.watch(
        caller.principal, lambda: connection.close(CloseCode.UNAUTHORIZED, "the key was revoked")
    )
    end = Closed(CloseCode.DRAINING, "the server stopped")
    try:
        await _open(connection, handler)
        end = await _converse(endpoint, connection, handler, receive)
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
            endpoint.connections.remove(connection)


def _make_handler(endpoint: Endpoint[M], caller: Caller) -> Handler[M]:
    try:
        return endpoint.handler(caller)
    except Exception:
        _log.exception("handler_failed", endpoint=endpoint.name, at="creation")
        raise Refused(CloseCode.INTERNAL_ERROR, "the connection could not be set up") from None


async def _open(connection: Connection, handler: Handler[M]) -> None:
    """Tell the handler of its connection; one that cannot begin is closed."""
    try:
        await handler.opened(connection)
    except Exception as error:
        _reply_failure(connection, error)
        connection.close(CloseCode.INTERNAL_ERROR, "the connection could not be set up")


async def _converse(
    endpoint: Endpoint[M], connection: Connection, handler: Handler[M], receive: Receive
) -> Closed:
    """Handle frame after frame, until the transport says that there are no more."""
    bucket = TokenBucket(endpoint.limits.messages_per_second, endpoint.clock)
    max_frame_bytes = endpoint.limits.max_frame_bytes
    decode = endpoint.decoder.decode
    frames = 0
    while True:
        frame = await receive()
        if isinstance(frame, Closed):
            return frame
        frames += 1
        if frames % _FRAMES_PER_TURN == 0:
            await asyncio.sleep(0)
        if connection.closed:
            continue
        if is_larger(frame, max_frame_bytes):
            connection.close(CloseCode.TOO_LARGE, f"a frame is over {max_frame_bytes} bytes")
            continue
        if not bucket.take():
            connection.send(_as_message(RateLimited("too many messages per second; send fewer")))
            connection.close(CloseCode.TOO_MANY, "too many messages per second")
            continue
        try:
            message = decode(frame, connection.sub)
        except InvalidMessage as error:
            await _malformed(connection, handler, error, first=frames == 1)
            continue
        try:
            await handler.received(message)
        except Exception as error:
            _reply_failure(connection, error)


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
