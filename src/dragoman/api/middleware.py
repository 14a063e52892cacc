"""What every request passes through: a shield against surprises, and the limits of politeness."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.api.problems import UNEXPECTED, problem_response
from dragoman.errors import DragomanError, Forbidden, PayloadTooLarge
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

    In open mode a browser on the operator's machine is an operator, whatever page it shows.
    """

    def __init__(self, app: ASGIApp, allowed_origins: Collection[str]) -> None:
        self._app = app
        self._allowed = frozenset(allowed_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in _SAFE_METHODS:
            headers = Headers(scope=scope)
            origin = headers.get("origin")
            if origin is not None and not self._may_change(origin, headers.get("host")):
                raise Forbidden(
                    f"Pages of {origin} may not change anything here; an operator can add the "
                    "origin to server.allowed_origins."
                )
        await self._app(scope, receive, send)

    def _may_change(self, origin: str, host: str | None) -> bool:
        if origin in self._allowed:
            return True
        try:
            return urlsplit(origin).netloc == host
        except ValueError:
            return False


class BodyLimit:
    """Refuses a body that is over the limit, announced or not, before it is held in memory."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdecimal() and int(announced) > self._max_bytes:
            raise self._too_large()
        received_bytes = 0

        async def receive_limited() -> Message:
            nonlocal received_bytes
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > self._max_bytes:
                raise self._too_large()
            return message

        async def send_unless_too_large(message: Message) -> None:
            # The framework makes an answer of its own from the failed read: it is dropped.
            if received_bytes <= self._max_bytes:
                await send(message)

        await self._app(scope, receive_limited, send_unless_too_large)
        if received_bytes > self._max_bytes:
            raise self._too_large()

    def _too_large(self) -> PayloadTooLarge:
        return PayloadTooLarge(
            f"The body is over {self._max_bytes} bytes; send less, or have an operator raise "
            "limits.max_frame_bytes.",
            details={"max_bytes": self._max_bytes},
        )
