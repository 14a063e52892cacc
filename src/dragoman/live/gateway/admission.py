"""Who is let in: the checks between a socket being there and its first message."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from dragoman.auth import ApiKey, authorize
from dragoman.errors import DragomanError, Forbidden, RateLimited, Unauthorized
from dragoman.live.gateway.endpoint import Caller, Endpoint
from dragoman.live.gateway.wire import CloseCode
from dragoman.live.protocol import SubProtocol
from dragoman.observability import get_logger

_log = get_logger(__name__)

_DEFAULT_PORTS = {"http": 80, "https": 443}
NO_ORIGIN = "null"
"""What a browser sends for a page whose origin it hides, such as one in a sandbox."""

_CLOSE_CODES: dict[type[DragomanError], CloseCode] = {
    Unauthorized: CloseCode.UNAUTHORIZED,
    Forbidden: CloseCode.FORBIDDEN,
    RateLimited: CloseCode.TOO_MANY,
}
"""How a refused credential shows at the socket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handshake:
    """What a caller says of itself before it is let in."""

    remote: str
    offered: Sequence[str] = ()
    """The sub-protocols it speaks."""
    key: ApiKey | None = None
    origin: str | None = None
    host: str | None = None


class AdmissionRefused(Exception):
    """Raised when a caller is not let in."""

    def __init__(self, code: CloseCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


async def admit(endpoint: Endpoint[Any], handshake: Handshake) -> tuple[SubProtocol, Caller]:
    """The sub-protocol to speak and who the caller is, or Refused."""
    _check_draining(endpoint)
    sub = SubProtocol.choose(handshake.offered)
    if sub is None:
        known = ", ".join(known.value for known in SubProtocol)
        raise AdmissionRefused(
            CloseCode.POLICY, f"no known sub-protocol was offered; known are: {known}"
        )
    if not origin_allowed(handshake.origin, handshake.host, endpoint.allowed_origins):
        raise AdmissionRefused(
            CloseCode.FORBIDDEN,
            "pages of this origin may not connect; add it to server.allowed_origins",
        )
    try:
        principal = await endpoint.authenticator.authenticate(handshake.key, handshake.remote)
        authorize(principal, endpoint.permission)
        endpoint.connections.check_room(handshake.remote, principal.key_id)
    except DragomanError as error:
        code = _CLOSE_CODES.get(type(error), CloseCode.INTERNAL_ERROR)
        raise AdmissionRefused(code, error.message) from None
    except Exception:
        _log.exception("authentication_failed", endpoint=endpoint.name)
        raise AdmissionRefused(CloseCode.INTERNAL_ERROR, "the key could not be checked") from None
    _check_draining(endpoint)  # it may have begun while the key was looked up
    return sub, Caller(principal, handshake.remote)


def _check_draining(endpoint: Endpoint[Any]) -> None:
    if endpoint.connections.draining:
        raise AdmissionRefused(CloseCode.DRAINING, "the server is shutting down")


def origin_allowed(origin: str | None, host: str | None, allowed: Collection[str]) -> bool:
    """Whether a page of `origin` may connect; programs that are no browsers send none.

    The server's own origin is the one whose host and port the request was sent to. The scheme is
    not compared: a proxy that ends TLS changes it, and it does not tell pages apart.
    """
    if origin is None or "*" in allowed:
        return True
    if origin == NO_ORIGIN or not host:
        return False
    if any(origin.lower() == known.rstrip("/").lower() for known in allowed):
        return True
    try:
        page = urlsplit(origin)
        default_port = _DEFAULT_PORTS.get(page.scheme)
        server = urlsplit(f"//{host}")
        return (
            page.hostname is not None
            and default_port is not None
            and page.hostname == server.hostname
            and (page.port or default_port) == (server.port or default_port)
        )
    except ValueError:  # a port that is no number, a bracket without its twin
        return False
