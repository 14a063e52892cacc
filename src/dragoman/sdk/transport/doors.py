"""The two doors of a scheduler, one for nodes and one for clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import urlsplit, urlunsplit

from dragoman.errors import SettingsError
from dragoman.live.protocol import (
    TO_CLIENT,
    TO_NODE,
    Decoder,
    Message,
    SchedulerToClient,
    SchedulerToNode,
)

M = TypeVar("M", bound=Message)

_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}


@dataclass(frozen=True, slots=True)
class Door(Generic[M]):
    """Where one kind of caller comes in, and how what it hears is read."""

    path: str
    decoder: Decoder[M]


NODE_DOOR: Door[SchedulerToNode] = Door("/ws/node", TO_NODE)
CLIENT_DOOR: Door[SchedulerToClient] = Door("/ws/session", TO_CLIENT)


def door_url(url: str, path: str) -> str:
    """The address of a door: a URL without a path means it.

    The address that a browser uses, with http or https, does as well.
    """
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise SettingsError(
            f"`{url}` is not the address of a scheduler; write it like ws://127.0.0.1:8080"
            " (wss:// where it is behind TLS)"
        )
    path = path if parts.path in ("", "/") else parts.path
    return urlunsplit(parts._replace(scheme=_SCHEMES[parts.scheme], path=path))
