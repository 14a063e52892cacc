"""Requests that no key vouches for: one address may send so many a minute, and no more."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.api.permissions import known_principal
from dragoman.api.problems import problem_response
from dragoman.api.refused_sockets import refuse_socket
from dragoman.auth import AddressLimit, Authenticator, presented_key, remote_address
from dragoman.errors import DragomanError, RateLimited
from dragoman.live.gateway import CloseCode

PROBES = frozenset({"/healthz", "/readyz"})
"""What load balancers ask, often and without a key: never refused for being many."""

_NEEDS_KEY = ("/api/", "/ws/", "/metrics")
"""Under these a key is checked..."""

_NEEDS_NONE = ("/api/v1/me", "/api/v1/sign-in", "/api/v1/sign-out")
"""...except here, where people come to show one."""


class OpenRequestLimit:
    """Counts the requests and sockets of an address that come without a key, before they cost.

    A request that brings a key where one is checked passes: whether the key is right is for the
    authenticator, which counts the wrong ones, or a caller without a key would lock out all others
    behind its address. Where none is checked, a right key passes.
    """

    def __init__(
        self,
        app: ASGIApp,
        limit: AddressLimit,
        authenticator: Authenticator,
        *,
        asks_for_keys: bool,
    ) -> None:
        """asks_for_keys: in open mode every caller is an operator, and only pages are counted."""
        self._app = app
        self._limit = limit
        self._authenticator = authenticator
        self._asks_for_keys = asks_for_keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        if self._comes_with_key(scope):
            await self._app(scope, receive, self._counting(scope, send))
            return
        try:
            await self._count(scope)
        except RateLimited as error:
            if scope["type"] == "http":
                raise
            await refuse_socket(scope, receive, send, CloseCode.TOO_MANY, error.message)
            return
        await self._app(scope, receive, send)

    def _comes_with_key(self, scope: Scope) -> bool:
        if not _checks_key(scope["path"]):
            return False
        return not self._asks_for_keys or presented_key(scope) is not None

    async def _count(self, scope: Scope) -> None:
        """Count a request that no right key vouches for; RateLimited over the limit."""
        key = presented_key(scope) if self._asks_for_keys else None
        if key is not None and self._authenticator.remembers(key):
            return
        address = remote_address(scope)
        try:
            self._limit.record(address)
        except RateLimited:
            if key is None:
                raise
            # Only now is the key looked up, as it is where keys are checked: in one read with all
            # others that wait, and a wrong one is counted.
            try:
                await self._authenticator.authenticate(key, address)
                return
            except DragomanError:
                pass
            raise

    def _counting(self, scope: Scope, send: Send) -> Send:
        """Counts an address that does not exist: no key was checked on the way to the answer."""
        if scope["type"] != "http" or not self._asks_for_keys:
            return send

        async def send_counted(message: Message) -> None:
            begins = message["type"] == "http.response.start"
            if begins and message["status"] in (404, 405) and known_principal(scope) is None:
                await self._count(scope)
            await send(message)

        return send_counted


class PreflightLimit:
    """Counts the questions that browsers ask before pages of other origins may send something.

    They bring no key, and are answered before any other part of the server sees them.
    """

    def __init__(self, app: ASGIApp, limit: AddressLimit, *, asks_for_keys: bool) -> None:
        """asks_for_keys: in open mode only questions about pages are counted, as pages are."""
        self._app = app
        self._limit = limit
        self._asks_for_keys = asks_for_keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _is_preflight(scope) and (self._asks_for_keys or not _checks_key(scope["path"])):
            try:
                self._limit.record(remote_address(scope))
            except RateLimited as error:
                await problem_response(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _checks_key(path: str) -> bool:
    return path.startswith(_NEEDS_KEY) and not path.startswith(_NEEDS_NONE)


def _is_preflight(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "OPTIONS" or scope["path"] in PROBES:
        return False
    headers = Headers(scope=scope)
    return "origin" in headers and "access-control-request-method" in headers
