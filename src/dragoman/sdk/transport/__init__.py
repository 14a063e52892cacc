"""How nodes and clients reach a scheduler: links over WebSocket, or of a program's own."""

from dragoman.sdk.transport.backoff import Backoff
from dragoman.sdk.transport.doors import CLIENT_DOOR, NODE_DOOR, Door, door_url
from dragoman.sdk.transport.link import (
    NO_GOODBYE,
    Connect,
    LimitsFrames,
    Link,
    LinkClosed,
    Unreachable,
    check_frame,
)
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
    "Unreachable",
    "WebSocketDoorConnect",
    "WebSocketLink",
    "check_frame",
    "door_url",
]
