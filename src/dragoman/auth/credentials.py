"""Where a key is found in a request or a WebSocket handshake."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from dragoman.auth.keys import ApiKey
from dragoman.errors import Forbidden

SIGN_IN_COOKIE = "dragoman_sign_in"
"""The cookie that a browser gets when a person signs in."""

CSRF_HEADER = "X-CSRF-Token"
"""Carries what a page can know and a form of another site cannot."""

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def presented_key(scope: Mapping[str, Any]) -> ApiKey | None:
    """The key of an ASGI scope: ``Authorization: Bearer KEY``, ``?token=KEY``, or the cookie.

    The query is for browsers, which cannot set headers on a WebSocket.
    """
    return _named_key(scope) or signed_in_key(scope)


def signed_in_key(scope: Mapping[str, Any]) -> ApiKey | None:
    """What the cookie of a person who signed in holds."""
    for value in _headers(scope, b"cookie"):
        try:
            morsel = SimpleCookie(value).get(SIGN_IN_COOKIE)
        except CookieError:
            continue
        if morsel is not None:
            return ApiKey(morsel.value)
    return None


def csrf_token(key: ApiKey) -> str:
    """What a page must send along with a change: derived from the cookie, which it cannot read."""
    return sha256(b"csrf:" + key.reveal().encode("utf-8", "surrogatepass")).hexdigest()


def check_csrf(scope: Mapping[str, Any]) -> None:
    """Refuse a change that only a cookie vouches for: a browser sends that unasked."""
    if scope["method"] in _SAFE_METHODS or _named_key(scope) is not None:
        return
    key = signed_in_key(scope)
    if key is None:
        return
    sent = next(_headers(scope, CSRF_HEADER.lower().encode()), "")
    if not hmac.compare_digest(sent.encode("utf-8", "replace"), csrf_token(key).encode()):
        raise Forbidden(
            f"A change from a browser that signed in needs the header {CSRF_HEADER}, with the "
            "csrf_token of GET /api/v1/me; reload the page."
        )


def remote_address(scope: Mapping[str, Any]) -> str:
    """The address that an ASGI scope came from; empty when the server cannot tell."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def _named_key(scope: Mapping[str, Any]) -> ApiKey | None:
    """A key that the caller put there by itself."""
    for value in _headers(scope, b"authorization"):
        scheme, _, text = value.strip().partition(" ")
        if scheme.lower() == "bearer" and text.strip():
            return ApiKey(text.strip())
    query = scope.get("query_string", b"").decode("latin-1")
    tokens = parse_qs(query).get("token")
    return ApiKey(tokens[0]) if tokens else None


def _headers(scope: Mapping[str, Any], wanted: bytes) -> Iterator[str]:
    for name, value in scope.get("headers", ()):
        if name.lower() == wanted:
            yield value.decode("latin-1")
