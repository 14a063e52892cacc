"""The live plane over HTTP: jobs, nodes, pools, and the sockets of nodes and sessions."""

from dragoman.api.live.ledgers import Backends, open_backends
from dragoman.api.live.parts import live_parts

__all__ = [
    "Backends",
    "live_parts",
    "open_backends",
]
