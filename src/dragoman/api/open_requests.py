"""Requests that no key vouches for: one address may send so many a minute, and no more."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.api.permissions import known_principal
from dragoman.api.refused_sockets import refuse_socket
from dragoman.auth import AddressLimit, presented_key, remote_address
from dragoman.errors import RateLimited
from dragoman.live.gateway import CloseCode

PROBES = frozenset({"/healthz", "/readyz"})
"""What load balancers ask, often and without a key: never refused for being many."""

_NEEDS_KEY = ("/api/", "/ws/", "/metrics")
"""Under these a key is checked..."""

_NEEDS_NONE = ("/api/v1/me", "/api/v1/sign-in", "/api/v1/sign-out")
"""...except here, where people come to show one."""


class OpenRequestLimit:
    """Counts the requests and sockets of an address that come without a key, before they cost.

    A request that brings a key passes: whether the key is right is for the authenticator, which
    counts the wrong ones, or a caller without a key would lock out all others behind its address.
    """

    def __init__(self, app: ASGIApp, limit: AddressLimit, *, asks_for_keys: bool) -> None:
        """asks_for_keys: in open mode every caller is an operator, and only pages are counted."""
        self._app = app
        self._limit = limit
        self._asks_for_keys = asks_for_keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        if self._comes_with_key(scope):
            await self._app(scope, receive, self._counting(scope, send))
            return
        try:
            self._limit.record(remote_address(scope))
        except RateLimited as error:
            if scope["type"] == "http":
                raise
            await refuse_socket(scope, receive, send, CloseCode.TOO_MANY, error.message)
            return
        await self._app(scope, receive, send)

    def _comes_with_key(self, scope: Scope) -> bool:
        path = scope["path"]
        if path.startswith(_NEEDS_NONE) or not path.startswith(_NEEDS_KEY):
            return False
        return not self._asks_for_keys or presented_key(scope) is not None

    def _counting(self, scope: Scope, send: Send) -> Send:
        """Counts an address that does not exist: no key was checked on the way to the answer."""
        if scope["type"] != "http" or not self._asks_for_keys:
            return send

        async def send_counted(message: Message) -> None:
            begins = message["type"] == "http.response.start"
            if begins and message["status"] in (404, 405) and known_principal(scope) is None:
                self._limit.record(remote_address(scope))
            await send(message)

        return send_counted
