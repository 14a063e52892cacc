"""What every request passes through: a shield against surprises, and the limits of politeness."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.api.problems import UNEXPECTED, problem_response
from dragoman.errors import DragomanError, Forbidden, PayloadTooLarge
from dragoman.live.gateway import NO_ORIGIN, origin_allowed
from dragoman.observability import get_logger

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

_SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}

_log = get_logger(__name__)


class Shield:
    """Turns whatever is raised into an answer, adds the security headers, logs surprises once."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answering = False

        async def send_shielded(message: Message) -> None:
            nonlocal answering
            if message["type"] == "http.response.start":
                answering = True
                MutableHeaders(scope=message).update(_SECURITY_HEADERS)
            await send(message)

        try:
            await self._app(scope, receive, send_shielded)
        except DragomanError as error:
            if answering:
                raise
            await problem_response(error)(scope, receive, send_shielded)
        except Exception:
            if answering:
                # Half an answer is out: only the server can break it off, and it logs this too.
                raise
            _log.exception("request_failed", method=scope["method"], path=scope["path"])
            await problem_response(UNEXPECTED)(scope, receive, send_shielded)


class OriginCheck:
    """Refuses changes asked for by pages of other origins.

    In open mode a browser on the operator's machine is an operator, whatever page it shows. A page
    that hides its origin (`null`) is one of another origin, and gets nothing at all.
    """

    def __init__(self, app: ASGIApp, allowed_origins: Collection[str]) -> None:
        self._app = app
        self._allowed = frozenset(allowed_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            origin = headers.get("origin")
            changes = scope["method"] not in _SAFE_METHODS or origin == NO_ORIGIN
            if changes and not origin_allowed(origin, headers.get("host"), self._allowed):
                raise Forbidden(
                    f"Pages of {origin} may not use this server; an operator can add the "
                    "origin to server.allowed_origins."
                )
        await self._app(scope, receive, send)


class BodyLimit:
    """Refuses a body that is over the limit, announced or not, before it is held in memory.

    Paths that begin with one of `larger` have a limit of their own.
    """

    def __init__(
        self, app: ASGIApp, max_bytes: int, larger: Mapping[str, int] | None = None
    ) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._larger = dict(larger or {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        max_bytes = self._limit_of(scope["path"])
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdecimal() and int(announced) > max_bytes:
            raise _too_large(max_bytes)
        received_bytes = 0

        async def receive_limited() -> Message:
            nonlocal received_bytes
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > max_bytes:
                raise _too_large(max_bytes)
            return message

        async def send_unless_too_large(message: Message) -> None:
            # The framework makes an answer of its own from the failed read: it is dropped.
            if received_bytes <= max_bytes:
                await send(message)

        await self._app(scope, receive_limited, send_unless_too_large)
        if received_bytes > max_bytes:
            raise _too_large(max_bytes)

    def _limit_of(self, path: str) -> int:
        limits = (limit for prefix, limit in self._larger.items() if path.startswith(prefix))
        return next(limits, self._max_bytes)


def _too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"The body is over {max_bytes} bytes; send less, or have an operator raise "
        "limits.max_frame_bytes.",
        details={"max_bytes": max_bytes},
    )
