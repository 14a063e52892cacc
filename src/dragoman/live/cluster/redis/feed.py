"""The change feed on Redis: one channel for all, and one for each instance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from dragoman.errors import DependencyDown
from dragoman.ids import InstanceId
from dragoman.live.cluster.changes import Change, encode_change, heard_from_others
from dragoman.live.cluster.redis.tags import Tags
from dragoman.observability import get_logger
from dragoman.redis_servers import Plain, RedisPipeline, Servers, Subscription

log = get_logger("dragoman.cluster")


class FeedOperations:
    """News that may be missed."""

    _tags: Tags
    _caller: RedisPipeline
    _servers: Servers
    _timeout_ms: int
    _instance_id: InstanceId

    async def publish(self, change: Change, to: InstanceId | None = None) -> None:
        channel = self._channel(to)
        called = encode_change(self._instance_id, change)
        # Every server of a Redis Cluster passes it on; the channel's own name spreads the load.
        await self._caller.ask(channel, "publish", Plain(("PUBLISH", channel, called)))

    async def listen(self, on_change: Callable[[Change], None], on_gap: Callable[[], None]) -> None:
        channels = (self._channel(None), self._channel(self._instance_id))
        while True:
            subscription = Subscription(self._servers, channels, self._timeout_ms)
            try:
                async with aclosing(subscription.messages()) as messages:
                    async for called in messages:
                        if called is None:
                            on_gap()
                            continue
                        change = heard_from_others(called, self._instance_id)
                        if change is not None:
                            on_change(change)
            except DependencyDown as error:
                log.warning_limited("feed_lost", key="feed", every_seconds=10, error=error.message)
                await asyncio.sleep(self._timeout_ms / 1000)

    def _channel(self, to: InstanceId | None) -> str:
        prefix = self._tags.key_prefix
        return f"{prefix}:feed" if to is None else f"{prefix}:feed:{to}"
