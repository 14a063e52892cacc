"""Which host names the server answers to: a page must not reach it by a name of its own.

A page of evil.example can have that name resolve to 127.0.0.1, and then a browser lets it read
what answers there (DNS rebinding). The Host header tells: it holds the name that was asked for.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.addresses import host_of, parsed_address
from dragoman.api.refused_sockets import refuse_socket
from dragoman.errors import Forbidden
from dragoman.live.gateway import CloseCode
from dragoman.settings import Settings, is_loopback

_NOT_SERVED = "this host is not served; add its origin to server.allowed_origins"

ServesHost = Callable[[str | None], bool]
"""Whether a request with this Host header is answered."""


def served_hosts(settings: Settings) -> ServesHost:
    """The names of the server, by the settings.

    Where keys are needed every name will do: a page that has none of the keys gains nothing, and
    people reach the server by names it cannot know.
    """
    server = settings.server
    own = (server.host, *filter(None, [settings.cluster.advertise_host]))
    if settings.auth.mode == "keys" or "*" in server.allowed_origins:
        return lambda header: True
    names = {"localhost"} | {
        name
        for authority in (*map(_bracketed, own), *map(_authority, server.allowed_origins))
        if (name := host_of(authority)) is not None
    }
    beyond_loopback = not is_loopback(server.host)
    if beyond_loopback:
        names |= _names_of_this_machine()

    def serves(header: str | None) -> bool:
        host = host_of(header) if header else None
        if host is None:
            return False
        if host in names:
            return True
        address = parsed_address(host)
        # A caller that uses an address asked no name server, so none can have misled it.
        return address is not None and (beyond_loopback or address.is_loopback)

    return serves


class HostCheck:
    """Refuses requests and sockets that ask for another host."""

    def __init__(self, app: ASGIApp, serves: ServesHost) -> None:
        self._app = app
        self._serves = serves

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        header = Headers(scope=scope).get("host")
        if self._serves(header):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            raise Forbidden(
                f"This server does not answer as {header or 'a host without a name'!r}; ask for "
                "localhost, or have an operator add the name's origin to server.allowed_origins."
            )
        else:
            await refuse_socket(scope, receive, send, CloseCode.FORBIDDEN, _NOT_SERVED)


def _authority(origin: str) -> str:
    return urlsplit(origin).netloc


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _names_of_this_machine() -> set[str]:
    """What other machines may call this one, as its instances call each other."""
    name = socket.gethostname().lower().removesuffix(".")
    return {name, name.partition(".")[0]} - {""}
