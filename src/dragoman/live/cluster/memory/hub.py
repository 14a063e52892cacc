"""The place where instances in one process meet."""

from __future__ import annotations

from random import Random

from dragoman.clock import Clock
from dragoman.ids import InstanceId, TenantId
from dragoman.live.cluster.answers import ClusterTerms, DeadLetter, Limited
from dragoman.live.cluster.memory.faults import Faults
from dragoman.live.cluster.memory.instance import Instance
from dragoman.live.cluster.memory.peers import MemoryPeers
from dragoman.live.cluster.memory.records import FeedListener, Window


class MemoryHub:
    """What Redis holds for a cluster, in memory; `peers` opens an instance's place in it."""

    def __init__(self, clock: Clock, random: Random, terms: ClusterTerms | None = None) -> None:
        self.clock = clock
        self.random = random
        self.terms = terms or ClusterTerms()
        self.faults = Faults(random)
        self.listeners: dict[InstanceId, FeedListener] = {}
        self.forget()

    def peers(self, instance_id: InstanceId) -> MemoryPeers:
        return MemoryPeers(self, instance_id)

    def go_down(self) -> None:
        """Answer no request, as a Redis that cannot be reached."""
        self.faults.down = True

    def come_back(self) -> None:
        """Answer again; listeners learn that they missed something."""
        self.faults.down = False
        for listener in list(self.listeners.values()):
            listener.on_gap()

    def forget(self) -> None:
        """Lose everything, as a Redis that is restarted empty."""
        self.instances: dict[InstanceId, Instance] = {}
        self.finished: dict[InstanceId, Instance] = {}
        """Instances that were cleaned up after, should they wake up and ask."""
        self.letters: dict[str, DeadLetter] = {}
        self.windows: dict[str, Window] = {}
        self.blocks: dict[tuple[Limited, TenantId], dict[InstanceId, tuple[int, int]]] = {}
        """Of each tenant's limit, how much each instance has, and until when."""
