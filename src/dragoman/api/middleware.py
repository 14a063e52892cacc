"""What every request passes through: error handling, checks of its origin, and size limits."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.api.problems import UNEXPECTED, problem_response
from dragoman.auth import check_csrf
from dragoman.errors import DragomanError, Forbidden, PayloadTooLarge, RateLimited
from dragoman.live.budget import ByteBudget
from dragoman.live.gateway import NO_ORIGIN, origin_allowed
from dragoman.observability import get_logger

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

_RETRY_MS = 1000

_log = get_logger(__name__)


class Shield:
    """Turns every exception into an answer, and logs unexpected errors once."""

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
            await send(message)

        try:
            await self._app(scope, receive, send_shielded)
        except DragomanError as error:
            if answering:
                raise
            await problem_response(error)(scope, receive, send_shielded)
        except ClientDisconnect:
            # The caller hung up before its request was complete: no answer can reach it.
            return
        except Exception:
            if answering:
                # Part of the answer was sent: only the server can break it off, which logs it too.
                raise
            _log.exception("request_failed", method=scope["method"], path=scope["path"])
            await problem_response(UNEXPECTED)(scope, receive, send_shielded)


class OriginCheck:
    """Refuses changes that pages of other origins ask for.

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


class CsrfCheck:
    """Refuses changes that only a browser's cookie vouches for, without the page's own word."""

    def __init__(self, app: ASGIApp, exempt: Collection[str]) -> None:
        """exempt: paths where no cookie counts."""
        self._app = app
        self._exempt = frozenset(exempt)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in self._exempt:
            check_csrf(scope)
        await self._app(scope, receive, send)


class BodyLimit:
    """Refuses a body over the limit, announced or not, before it is kept in memory.

    Paths that begin with one of `larger` have a limit of their own, and bodies that are passed on
    as they come. All others are read whole, and count as bytes that the process keeps.
    """

    def __init__(
        self,
        app: ASGIApp,
        max_bytes: int,
        larger: Mapping[str, int] | None = None,
        budget: ByteBudget | None = None,
    ) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._larger = dict(larger or {})
        self._budget = budget or ByteBudget(sys.maxsize)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        max_bytes = self._limit_of(scope["path"])
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdecimal() and int(announced) > max_bytes:
            raise _too_large(max_bytes)
        is_kept = max_bytes == self._max_bytes
        received_bytes = 0
        refusal: DragomanError | None = None

        async def receive_limited() -> Message:
            nonlocal received_bytes, refusal
            message = await receive()
            size_bytes = len(message.get("body", b""))
            received_bytes += size_bytes
            has_room = not is_kept or self._budget.change(size_bytes) or not size_bytes
            if received_bytes > max_bytes:
                refusal = _too_large(max_bytes)
            elif not has_room:
                refusal = RateLimited(
                    "The server's buffers are full (limits.buffered_bytes); try again later.",
                    retry_after_ms=_RETRY_MS,
                )
            if refusal is not None:
                raise refusal
            return message

        async def send_unless_refused(message: Message) -> None:
            # The framework makes an answer of its own from the failed read: it is dropped.
            if refusal is None:
                await send(message)

        try:
            await self._app(scope, receive_limited, send_unless_refused)
        finally:
            if is_kept:
                self._budget.change(-received_bytes)
        if refusal is not None:
            raise refusal

    def _limit_of(self, path: str) -> int:
        limits = (limit for prefix, limit in self._larger.items() if path.startswith(prefix))
        return next(limits, self._max_bytes)


def _too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"The body is over {max_bytes} bytes; send less, or have an operator raise "
        "limits.max_frame_bytes.",
        details={"max_bytes": max_bytes},
    )
