"""What the scheduler remembers of a conversation to choose its nodes well."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from random import Random

from dragoman.ids import NodeId, SessionId
from dragoman.live.snapshot import Pair, PoolShards


class Route:
    """One session's preferred shard, affinity and last node. Times are monotonic seconds."""

    __slots__ = ("_affinity_until", "_pair", "_shard", "affinity_node", "last", "last_at")

    def __init__(self) -> None:
        self._pair: Pair | None = None
        self._shard: int | None = None
        self.affinity_node: NodeId | None = None
        """The node that has the start of the sentence, while there may be a rest."""
        self._affinity_until = 0.0
        self.last: NodeId | None = None
        """The node that served the session last."""
        self.last_at = 0.0

    def shard(self, pair: Pair, shards: PoolShards) -> int | None:
        """The shard this session stays with, unless the pair changed or the shard is gone."""
        if pair != self._pair:
            self._pair, self._shard = pair, None
        return self._shard if self._shard in shards.members else None

    def keep_shard(self, shard: int) -> None:
        self._shard = shard

    def served_by(self, node_id: NodeId, now: float) -> None:
        self.last, self.last_at = node_id, now

    def to_avoid(self, window_seconds: float, now: float) -> NodeId | None:
        """The node that served this session last, while the spread window lasts."""
        return self.last if now - self.last_at < window_seconds else None

    def bind(self, ttl_seconds: float, now: float) -> NodeId | None:
        """A length cut: the rest of the sentence should go to the node that has its start."""
        self.affinity_node, self._affinity_until = self.last, now + ttl_seconds
        return self.affinity_node

    def unbind(self) -> NodeId | None:
        """A final or a pause: the sentence is over."""
        node, self.affinity_node = self.affinity_node, None
        return node

    @property
    def bound(self) -> bool:
        """Whether there may be an affinity."""
        return self.affinity_node is not None

    def affinity(self, now: float) -> NodeId | None:
        if self.affinity_node is not None and now >= self._affinity_until:
            self.affinity_node = None
        return self.affinity_node


class Routes:
    """Routes by session; those not used for longest make room."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._routes: OrderedDict[SessionId, Route] = OrderedDict()

    def __len__(self) -> int:
        return len(self._routes)

    def of(self, session_id: SessionId) -> Route:
        route = self._routes.get(session_id)
        if route is None:
            route = self._routes[session_id] = Route()
            if len(self._routes) > self._limit:
                self._routes.popitem(last=False)
        else:
            self._routes.move_to_end(session_id)
        return route

    def forget(self, session_id: SessionId) -> None:
        self._routes.pop(session_id, None)


def hashed_shard(key: str, shards: PoolShards) -> int:
    """The shard a tenant or session always falls on, for as long as the shards stay."""
    digest = blake2b(key.encode(), digest_size=8).digest()
    return shards.cells[int.from_bytes(digest, "big") % len(shards.cells)]


def drawn_order(first: int, shards: PoolShards, random: Random) -> list[int]:
    """The other cells, from a random place on, so that the overflow spreads as well."""
    cells = shards.cells
    start = int(random.random() * len(cells))
    return [cell for cell in cells[start:] + cells[:start] if cell != first]
