"""An instance among its peers, on Redis."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from dragoman.ids import InstanceId
from dragoman.live.cluster.answers import ClusterTerms
from dragoman.live.cluster.redis.feed import FeedOperations
from dragoman.live.cluster.redis.inbox import InboxOperations
from dragoman.live.cluster.redis.limits import LimitOperations
from dragoman.live.cluster.redis.presence import PresenceOperations
from dragoman.live.cluster.redis.tags import Tags
from dragoman.redis_servers import RedisPipeline, open_servers, versioned


class RedisPeers(PresenceOperations, InboxOperations, FeedOperations, LimitOperations):
    """One instance's place in a cluster that meets on a Redis server or a Redis Cluster.

    Every operation is one function on the keys of one hash tag, on the server's time. Nothing is
    retried behind the asker's back. Waiting for notes and listening to the feed have connections
    of their own, so that they never keep another call waiting.
    """

    def __init__(
        self,
        url: str,
        instance_id: InstanceId,
        random: Random,
        terms: ClusterTerms | None = None,
        *,
        cluster: bool = False,
        key_prefix: str = "dragoman:v1",
        timeout_ms: int = 1_000,
        time_shift_ms: Callable[[], int] | None = None,
        on_answer: Callable[[str, float], None] | None = None,
        on_full: Callable[[], None] | None = None,
    ) -> None:
        """Nothing is sent until the first operation.

        time_shift_ms is added to the server's time, for tests. on_answer is told the name of each
        operation that was answered, and its seconds; on_full is called for each that was refused
        for want of memory.
        """
        self._terms = terms or ClusterTerms()
        self._random = random
        self._instance_id = instance_id
        self._incarnation = ""
        self._born_ms = 0
        self._next_incarnation = ""
        self._is_outlived = False
        self._timeout_ms = timeout_ms
        # A wait that nothing ends must be answered well before the line gives up on it.
        self._longest_wait_ms = timeout_ms // 2
        self._servers = open_servers(url, timeout_ms, cluster=cluster)
        self._caller = RedisPipeline(self._servers, timeout_ms, on_answer, on_full)
        self._bell = RedisPipeline(open_servers(url, timeout_ms, cluster=cluster), timeout_ms)
        self._tags = Tags(self._caller, versioned(key_prefix), time_shift_ms)

    @property
    def instance_id(self) -> InstanceId:
        return self._instance_id

    async def close(self) -> None:
        """Close the connections without a word; pending requests are refused."""
        await self._bell.close()
        await self._caller.close()
