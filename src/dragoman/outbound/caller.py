"""Asks servers: one request, one bounded answer."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Mapping

import httpcore
import httpx
import msgspec

from dragoman.errors import Forbidden, InvalidMessage
from dragoman.outbound.addresses import AddressRules
from dragoman.outbound.answers import HttpAnswer
from dragoman.outbound.failures import TargetError
from dragoman.outbound.guard import AddressRefused, GuardedNetwork, Lookup, look_up
from dragoman.version import __version__

MAX_ANSWER_BYTES = 16 * 1024 * 1024

_CONNECT_SECONDS = 10.0
_KEPT_CONNECTIONS = 100
_KEPT_SECONDS = 30.0
_OWN_HEADERS = {
    "accept": "application/json",
    # A compressed answer may unpack to a thousand times its size.
    "accept-encoding": "identity",
    "user-agent": f"dragoman/{__version__}",
}
_ORIGIN = re.compile(r"https?://[^/?#\s%]+(?=[/?#]|$)", re.IGNORECASE)

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")


class HttpRequest(msgspec.Struct, frozen=True):
    """What is asked; header names are in lower case."""

    method: str
    url: httpx.URL
    headers: Mapping[str, str]
    content: bytes | None
    timeout_seconds: float


class HttpCaller:
    """Makes requests, many at once, to permitted addresses.

    Redirects are not followed: they would carry the headers elsewhere.
    """

    def __init__(
        self,
        rules: AddressRules,
        lookup: Lookup = look_up,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`tls` says which certificates to trust; None: those that the machine trusts."""
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=None,
            max_keepalive_connections=_KEPT_CONNECTIONS,
            keepalive_expiry=_KEPT_SECONDS,
            network_backend=GuardedNetwork(rules, lookup),
        )

    async def ask(
        self, request: HttpRequest, on_piece: Callable[[bytes], None] | None = None
    ) -> HttpAnswer:
        """The whole answer; raises `TargetError` when there is none.

        `on_piece` hears the pieces of a successful answer as they come in.
        """
        seconds = request.timeout_seconds
        try:
            # The pool's own limits are per step; a server that drips would never end.
            async with asyncio.timeout(seconds):
                return await self._exchange(request, on_piece)
        except (TimeoutError, httpcore.TimeoutException) as error:
            raise TargetError(f"No whole answer within {seconds:g} s.") from error
        except AddressRefused as error:
            # Tried again, because a name server may fail; and so an unknown name fails like a
            # private one.
            raise TargetError(f"{error}.") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
            raise TargetError(f"No answer: {str(error) or type(error).__name__}.") from error

    async def close(self) -> None:
        await self._pool.aclose()

    async def _exchange(
        self, request: HttpRequest, on_piece: Callable[[bytes], None] | None
    ) -> HttpAnswer:
        url = request.url
        headers = {"host": url.netloc.decode("ascii"), **_OWN_HEADERS, **request.headers}
        async with self._pool.stream(
            request.method,
            httpcore.URL(
                scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
            ),
            headers=list(headers.items()),
            content=request.content,
            extensions={"timeout": {"connect": _CONNECT_SECONDS}},
        ) as response:
            told = {
                name.decode("ascii", "replace").lower(): value.decode("latin-1")
                for name, value in response.headers
            }
            if told.get("content-encoding", "identity") != "identity":
                raise TargetError("The answer is compressed; the request did not allow that.")
            heard = on_piece if 200 <= response.status < 300 else None
            return HttpAnswer(response.status, told, await _read(response, heard))


def check_url(url: str, where: str, rules: AddressRules) -> None:
    """Refuse an address that cannot be called or is not permitted; `where` names the setting."""
    origin = _ORIGIN.match(url)
    if origin is None or "{{" in origin[0]:
        raise _unusable(
            where, "expected http://host/... or https://host/..., with the host written out"
        )
    try:
        parsed = httpx.URL(url.replace("{{", "").replace("}}", ""))
    except httpx.InvalidURL as error:
        raise _unusable(where, str(error)) from None
    if parsed.userinfo:
        raise _unusable(where, "it holds a password; send it in a header")
    if rules.refuse(parsed.host):
        raise Forbidden(
            f"`{where}` calls {parsed.host}, which is private; "
            "list it in lab.http_allow if experiments may call it.",
            details={"field": where},
        )


def check_headers(headers: Mapping[str, str], where: str) -> None:
    """Refuse headers that cannot be sent."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise _unusable(f"{where}.{name}", "not a header; use ASCII without line ends")


async def _read(response: httpcore.Response, on_piece: Callable[[bytes], None] | None) -> bytes:
    found = bytearray()
    async for piece in response.aiter_stream():
        found += piece
        if len(found) > MAX_ANSWER_BYTES:
            raise TargetError(f"The answer is over {MAX_ANSWER_BYTES:,} bytes.", retryable=False)
        if on_piece is not None:
            on_piece(piece)
    return bytes(found)


def _unusable(where: str, reason: str) -> InvalidMessage:
    return InvalidMessage(f"`{where}` does not fit: {reason}.", details={"field": where})
