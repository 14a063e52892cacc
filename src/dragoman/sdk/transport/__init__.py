"""How nodes and clients reach a scheduler: links over WebSocket, or of a program's own."""

from dragoman.sdk.transport.backoff import Backoff
from dragoman.sdk.transport.doors import CLIENT_DOOR, NODE_DOOR, Door, door_url
from dragoman.sdk.transport.link import (
    NO_GOODBYE,
    Connect,
    HandsOver,
    LimitsFrames,
    Link,
    LinkClosed,
    SendsNow,
    Unreachable,
    check_frame,
    listen,
)
from dragoman.sdk.transport.websocket import WebSocketDoorConnect, WebSocketLink

__all__ = [
    "CLIENT_DOOR",
    "NODE_DOOR",
    "NO_GOODBYE",
    "Backoff",
    "Connect",
    "Door",
    "HandsOver",
    "LimitsFrames",
    "Link",
    "LinkClosed",
    "SendsNow",
    "Unreachable",
    "WebSocketDoorConnect",
    "WebSocketLink",
    "check_frame",
    "door_url",
    "listen",
]
