"""The cluster within one process, for the virtual clock: several instances, faults at will."""

from dragoman.live.cluster.memory.faults import Faults
from dragoman.live.cluster.memory.hub import MemoryHub
from dragoman.live.cluster.memory.peers import MemoryPeers

__all__ = ["Faults", "MemoryHub", "MemoryPeers"]
