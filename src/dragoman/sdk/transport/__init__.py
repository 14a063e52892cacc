"""How nodes and clients reach a scheduler: links over WebSocket, or through memory in tests."""

from dragoman.sdk.transport.backoff import Backoff
from dragoman.sdk.transport.doors import CLIENT_DOOR, NODE_DOOR, Door, door_url
from dragoman.sdk.transport.link import (
    NO_GOODBYE,
    Connect,
    LimitsFrames,
    Link,
    LinkClosed,
    Unreachable,
)
from dragoman.sdk.transport.memory import MemoryDoorConnect, MemoryLink
from dragoman.sdk.transport.websocket import WebSocketDoorConnect, WebSocketLink

__all__ = [
    "CLIENT_DOOR",
    "NODE_DOOR",
    "NO_GOODBYE",
    "Backoff",
    "Connect",
    "Door",
    "LimitsFrames",
    "Link",
    "LinkClosed",
    "MemoryDoorConnect",
    "MemoryLink",
    "Unreachable",
    "WebSocketDoorConnect",
    "WebSocketLink",
    "door_url",
]
