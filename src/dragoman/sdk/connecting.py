"""How nodes and clients connect to a scheduler."""

from __future__ import annotations

from functools import partial

from dragoman.live.protocol import SchedulerToClient, SchedulerToNode
from dragoman.sdk.transport import (
    CLIENT_DOOR,
    NODE_DOOR,
    Connect,
    Link,
    WebSocketDoorConnect,
    door_url,
)

NodeLink = Link[SchedulerToNode]
NodeConnect = Connect[SchedulerToNode]

SessionLink = Link[SchedulerToClient]
SessionConnect = Connect[SchedulerToClient]

node_url = partial(door_url, path=NODE_DOOR.path)
"""The address of the scheduler's node socket, also for a URL without a path."""

session_url = partial(door_url, path=CLIENT_DOOR.path)
"""The address of the scheduler's session socket, also for a URL without a path."""

WebSocketConnect = partial(WebSocketDoorConnect[SchedulerToNode], door=NODE_DOOR)
"""Connects a node to a scheduler's URL, with a key if it needs one."""

WebSocketSessionConnect = partial(WebSocketDoorConnect[SchedulerToClient], door=CLIENT_DOOR)
"""Connects a client to a scheduler's URL, with a key if it needs one."""
