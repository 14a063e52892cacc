"""How a socket is refused before any endpoint has it."""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from dragoman.live.gateway import CloseCode

_MAX_REASON_BYTES = 123  # a close frame holds 125 bytes, two of them are the code


async def refuse_socket(
    scope: Scope, receive: Receive, send: Send, code: CloseCode, reason: str
) -> None:
    """Accept and close: a browser can read the code of a close, but not of a refused handshake."""
    await receive()
    # A browser takes no answer without one of the sub-protocols that it offered.
    offered = scope.get("subprotocols") or [None]
    await send({"type": "websocket.accept", "subprotocol": offered[0]})
    fitting = reason.encode()[:_MAX_REASON_BYTES].decode(errors="ignore")
    await send({"type": "websocket.close", "code": int(code), "reason": fitting})
