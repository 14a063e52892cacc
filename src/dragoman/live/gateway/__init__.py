"""Connections: what a socket is to the scheduler, and the two transports it may come by.

A handler sees messages, an endpoint says who may send them, and neither knows whether they came
over a WebSocket or through memory on a virtual clock.
"""

from dragoman.live.gateway import rules
from dragoman.live.gateway.admission import NO_ORIGIN, Handshake, origin_allowed
from dragoman.live.gateway.cluster import cluster_terms
from dragoman.live.gateway.connection import Connection
from dragoman.live.gateway.connections import Connections
from dragoman.live.gateway.conversation import serve_connection
from dragoman.live.gateway.endpoint import Caller, Decodes, Endpoint, Handler
from dragoman.live.gateway.limits import ConnectionLimits, SocketCount, TransportLimits
from dragoman.live.gateway.live_plane import LivePlane
from dragoman.live.gateway.memory import (
    Delay,
    DirectLink,
    DuplexLink,
    MemoryClient,
    MemoryNetwork,
    fixed,
    instant,
    long_tailed,
    uniform,
)
from dragoman.live.gateway.uvicorn_server import uvicorn_options
from dragoman.live.gateway.websocket import ListenApp, WebSocketApp
from dragoman.live.gateway.wire import CloseCode, ConnectionClosed, Frame, Receive, Wire, WireClosed

__all__ = [
    "NO_ORIGIN",
    "Caller",
    "CloseCode",
    "Connection",
    "ConnectionClosed",
    "ConnectionLimits",
    "Connections",
    "Decodes",
    "Delay",
    "DirectLink",
    "DuplexLink",
    "Endpoint",
    "Frame",
    "Handler",
    "Handshake",
    "ListenApp",
    "LivePlane",
    "MemoryClient",
    "MemoryNetwork",
    "Receive",
    "SocketCount",
    "TransportLimits",
    "WebSocketApp",
    "Wire",
    "WireClosed",
    "cluster_terms",
    "fixed",
    "instant",
    "long_tailed",
    "origin_allowed",
    "rules",
    "serve_connection",
    "uniform",
    "uvicorn_options",
]
