"""The live plane over HTTP: jobs, nodes, pools, and the sockets of nodes and sessions."""

from dragoman.api.live.ledgers import open_ledger
from dragoman.api.live.parts import live_parts

__all__ = ["live_parts", "open_ledger"]
