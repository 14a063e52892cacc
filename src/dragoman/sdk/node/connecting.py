"""How nodes reach their door of a scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.live.protocol import SchedulerToNode, SubProtocol
from dragoman.sdk.transport import (
    NODE_DOOR,
    Connect,
    Link,
    MemoryDoorConnect,
    WebSocketDoorConnect,
    door_url,
)

if TYPE_CHECKING:
    from dragoman.auth import ApiKey
    from dragoman.live.gateway import Delay, Endpoint, MemoryNetwork

NodeLink = Link[SchedulerToNode]
NodeConnect = Connect[SchedulerToNode]


def node_url(url: str) -> str:
    """The address of the scheduler's door for nodes; a URL without a path means it."""
    return door_url(url, NODE_DOOR.path)


class WebSocketConnect(WebSocketDoorConnect[SchedulerToNode]):
    """Connects to a scheduler's URL, with a key where it wants one."""

    def __init__(
        self, url: str, *, token: str | None = None, sub: SubProtocol = SubProtocol.MSGPACK
    ) -> None:
        super().__init__(url, NODE_DOOR, token=token, sub=sub)


class MemoryConnect(MemoryDoorConnect[SchedulerToNode]):
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
        super().__init__(network, endpoint, NODE_DOOR, key=key, sub=sub, delay=delay)
