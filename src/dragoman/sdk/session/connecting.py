"""How clients reach their door of a scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.live.protocol import SchedulerToClient, SubProtocol
from dragoman.sdk.transport import (
    CLIENT_DOOR,
    Connect,
    Link,
    MemoryDoorConnect,
    WebSocketDoorConnect,
    door_url,
)

if TYPE_CHECKING:
    from dragoman.auth import ApiKey
    from dragoman.live.gateway import Delay, Endpoint, MemoryNetwork

SessionLink = Link[SchedulerToClient]
SessionConnect = Connect[SchedulerToClient]


def session_url(url: str) -> str:
    """The address of the scheduler's door for clients; a URL without a path means it."""
    return door_url(url, CLIENT_DOOR.path)


class WebSocketSessionConnect(WebSocketDoorConnect[SchedulerToClient]):
    """Connects to a scheduler's URL, with a key where it wants one."""

    def __init__(
        self, url: str, *, token: str | None = None, sub: SubProtocol = SubProtocol.MSGPACK
    ) -> None:
        super().__init__(url, CLIENT_DOOR, token=token, sub=sub)


class MemorySessionConnect(MemoryDoorConnect[SchedulerToClient]):
    """Connects to an endpoint through a network in memory."""

    def __init__(
        self,
        network: MemoryNetwork,
        endpoint: Endpoint[Any],
        *,
        key: ApiKey | None = None,
        sub: SubProtocol = SubProtocol.MSGPACK,
        delay: Delay | None = None,
    ) -> None:
        super().__init__(network, endpoint, CLIENT_DOOR, key=key, sub=sub, delay=delay)
