"""Requests for the lab, handed on by the live process once it knows who is asking."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx
from fastapi import Request
from fastapi.routing import APIRoute
from starlette.background import BackgroundTask
from starlette.responses import Response, StreamingResponse

from dragoman.api.lab.child import LabChild
from dragoman.api.lab.principals import PRINCIPAL_HEADER, as_header
from dragoman.api.permissions import authenticated
from dragoman.auth import (
    Access,
    Authenticator,
    Permission,
    authorize,
)
from dragoman.errors import DependencyDown, InternalError

_LAB = "http://lab"
_PATIENT = {"timeout": {"connect": 5.0, "read": None, "write": None, "pool": None}}
"""A file may take long to be sent, and long to be read; the caller can always hang up."""
_IMPATIENT = {"timeout": dict.fromkeys(("connect", "read", "write", "pool"), 2.0)}
_RETRY_AFTER_MS = 1_000
_NO_BODY = frozenset({"GET", "HEAD", "DELETE"})
_ABOUT_A_BODY = frozenset({"content-length", "content-type", "content-encoding"})
"""Headers that are dropped together with a body that has no meaning here."""

_NOT_HANDED_ON = frozenset(
    {
        # Between two neighbours only, by HTTP's own rules.
        *("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host"),
        # Headers that the live process handles itself.
        *("authorization", "cookie", "date", "expect", PRINCIPAL_HEADER),
    }
)


class Forwarder:
    """Asks the lab's process on behalf of callers."""

    def __init__(self, child: LabChild, authenticator: Authenticator) -> None:
        self._child = child
        self._authenticator = authenticator

    async def forward(self, request: Request, permission: Permission) -> Response:
        """The lab's answer, passed on as it comes."""
        principal = await authenticated(request, self._authenticator)
        # Whether it may also act, the lab decides: some of its questions are asked with POST.
        authorize(principal, permission, Access.READ)
        bodiless = request.method in _NO_BODY
        headers = [
            (name, value)
            for name, value in request.headers.items()
            if name.lower() not in _NOT_HANDED_ON
            and not (bodiless and name.lower() in _ABOUT_A_BODY)
        ]
        answer, transport = await self._ask(
            httpx.Request(
                request.method,
                _address(request),
                headers=[*headers, ("Host", "lab"), (PRINCIPAL_HEADER, as_header(principal))],
                content=None if bodiless else request.stream(),
                extensions=_PATIENT,
            )
        )
        return StreamingResponse(
            answer.aiter_raw(),
            status_code=answer.status_code,
            headers=_handed_back(answer.headers),
            background=BackgroundTask(transport.aclose),
        )

    async def fetch(self, path: str) -> bytes:
        """The lab's answer to a question of the server's own."""
        question = httpx.Request("GET", f"{_LAB}{path}", extensions=_IMPATIENT)
        answer, transport = await self._ask(question)
        try:
            return await answer.aread()
        finally:
            await transport.aclose()

    async def tell(self, path: str, body: bytes) -> None:
        """Give the lab something of the server's own; raises what it refuses."""
        question = httpx.Request("POST", f"{_LAB}{path}", content=body, extensions=_IMPATIENT)
        answer, transport = await self._ask(question)
        try:
            said = await answer.aread()
        finally:
            await transport.aclose()
        if not answer.is_success:
            raise InternalError(f"The lab refused it ({answer.status_code}): {said[:500]!r}")

    async def _ask(
        self, question: httpx.Request
    ) -> tuple[httpx.Response, httpx.AsyncHTTPTransport]:
        """An answer whose body is still to come; closing the transport lets go of it.

        Through a transport of its own, since the child that answered before may be gone; and
        through no client, which would write every address into the log.
        """
        transport = httpx.AsyncHTTPTransport(uds=self._child.socket_path)
        try:
            answer = await transport.handle_async_request(question)
        except httpx.TransportError as error:
            await transport.aclose()
            raise DependencyDown(
                "The lab broke off while it was asked, and is being started again; look whether "
                "what you asked for was done before you ask again.",
                retry_after_ms=_RETRY_AFTER_MS,
            ) from error
        except BaseException:
            await transport.aclose()
            raise
        return answer, transport


def forwarded(forwarder: Forwarder, permission: Permission) -> type[APIRoute]:
    """A class of routes that are documented here and answered by the lab."""

    class ForwardedRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
            async def handler(request: Request) -> Response:
                return await forwarder.forward(request, permission)

            return handler

    return ForwardedRoute


def _address(request: Request) -> httpx.URL:
    """What is asked, without the key that a caller may have put there."""
    path: bytes = request.scope.get("raw_path") or request.url.path.encode()
    parts = request.scope.get("query_string", b"").split(b"&")
    query = b"&".join(part for part in parts if part and not part.startswith(b"token="))
    return httpx.URL(_LAB).copy_with(raw_path=path + (b"?" + query if query else b""))


def _handed_back(headers: httpx.Headers) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in _NOT_HANDED_ON}
