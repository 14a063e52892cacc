"""The in-memory transport: connections without sockets, with every fault of a network on demand."""

from dragoman.live.gateway.memory.client import MemoryClient
from dragoman.live.gateway.memory.delays import Delay, fixed, instant, long_tailed, uniform
from dragoman.live.gateway.memory.direct import DirectLink
from dragoman.live.gateway.memory.direction import Direction
from dragoman.live.gateway.memory.link import DuplexLink
from dragoman.live.gateway.memory.network import MemoryNetwork

__all__ = [
    "Delay",
    "DirectLink",
    "Direction",
    "DuplexLink",
    "MemoryClient",
    "MemoryNetwork",
    "fixed",
    "instant",
    "long_tailed",
    "uniform",
]
