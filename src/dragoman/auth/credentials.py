"""Where a key is found in a request or a WebSocket handshake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from dragoman.auth.keys import ApiKey


def presented_key(scope: Mapping[str, Any]) -> ApiKey | None:
    """The key of an ASGI scope: ``Authorization: Bearer KEY``, else ``?token=KEY``.

    The query is for browsers, which cannot set headers on a WebSocket.
    """
    for name, value in scope.get("headers", ()):
        if name.lower() == b"authorization":
            scheme, _, text = value.decode("latin-1").strip().partition(" ")
            if scheme.lower() == "bearer" and text.strip():
                return ApiKey(text.strip())
    query = scope.get("query_string", b"").decode("latin-1")
    tokens = parse_qs(query).get("token")
    return ApiKey(tokens[0]) if tokens else None


def remote_address(scope: Mapping[str, Any]) -> str:
    """The address that an ASGI scope came from; empty when the server cannot tell."""
    client = scope.get("client")
    return str(client[0]) if client else ""
