"""Hints through Redis Streams: offers to one worker each, everything else to all.

Needs the extra `cluster`. Redis may be restarted empty at any time: nothing in it is relied on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Sequence
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from dragoman.lab.queue.remote import CarriedHint, LinkDown, TopicName

STREAM_LENGTH = 1_000
"""Messages that Redis keeps of a topic, about; a reader that falls behind misses the oldest."""

KEYS_IN_AN_OFFER = 8
"""Few enough that several workers share the first items of a run."""

CONNECT_SECONDS = 5.0
BLOCK_MS = 2_000
"""How long one question for messages waits for them."""
ANSWER_SECONDS = BLOCK_MS / 1000 + 5.0

_BLINK_SECONDS = 0.1
_GROUP = "workers"
_CONSUMER = "worker"
"""One name for all: an offer is not acknowledged, so Redis remembers nothing of a consumer."""
_FIELD = b"hint"
_FROM_THE_FIRST = "0"
_TOLD = (TopicName.STOPS, TopicName.NEWS, TopicName.CHANGES)


class RedisLink:
    """The way through one Redis or Valkey server."""

    keys_in_an_offer = KEYS_IN_AN_OFFER

    def __init__(self, url: str) -> None:
        self._redis: Redis[bytes] = Redis.from_url(  # type: ignore[type-arg, unused-ignore]
            url,
            protocol=2,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=ANSWER_SECONDS,
        )
        self._asking: set[asyncio.Future[Any]] = set()

    async def send(self, messages: Sequence[CarriedHint]) -> None:
        pipeline = self._redis.pipeline(transaction=False)
        for message in messages:
            pipeline.xadd(
                _key(message.topic),
                {_FIELD: message.payload},
                maxlen=STREAM_LENGTH,
                approximate=True,
            )
        await self._answered(pipeline.execute())

    async def hear(self) -> AsyncGenerator[CarriedHint]:
        since: dict[Any, Any] = {}
        for topic in _TOLD:
            newest = await self._answered(self._redis.xrevrange(_key(topic), count=1))
            since[_key(topic)] = newest[0][0] if newest else _FROM_THE_FIRST
        topics = {_key(topic).encode(): topic for topic in _TOLD}
        while True:
            found = await self._answered(
                self._redis.xread(since, count=STREAM_LENGTH, block=BLOCK_MS)
            )
            for key, entries in found or ():
                for entry_id, fields in entries:
                    since[key.decode()] = entry_id
                    if _FIELD in fields:
                        yield CarriedHint(topics[key], fields[_FIELD])

    async def next_offers(self, items: int) -> Sequence[bytes]:
        count = max(1, items // KEYS_IN_AN_OFFER)
        stream: dict[Any, Any] = {_key(TopicName.OFFERS): ">"}
        try:
            found = await self._answered(
                self._redis.xreadgroup(
                    _GROUP, _CONSUMER, stream, count=count, block=BLOCK_MS, noack=True
                )
            )
        except _NoGroup:
            await self._make_group()
            return ()
        return [
            fields[_FIELD]
            for _, entries in found or ()
            for _, fields in entries
            if fields and _FIELD in fields
        ]

    async def close(self) -> None:
        while self._asking:
            for asking in self._asking:
                asking.cancel()
            await asyncio.wait(self._asking, timeout=_BLINK_SECONDS)
        await self._redis.aclose()

    async def _answered(self, answer: Awaitable[Any]) -> Any:
        """What Redis answers; raises `LinkDown`.

        It is asked in a task of its own: while redis-py connects, it may overlook that its caller
        was cancelled.
        """
        asking = asyncio.ensure_future(answer)
        self._asking.add(asking)
        asking.add_done_callback(self._over)
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.cancel()
            raise
        except ResponseError as error:
            if str(error).startswith("NOGROUP"):
                raise _NoGroup from error
            raise LinkDown(f"Redis refused: {error}") from error
        except (RedisError, OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            raise LinkDown(_reason(error)) from error

    def _over(self, asking: asyncio.Future[Any]) -> None:
        self._asking.discard(asking)
        if not asking.cancelled():
            asking.exception()  # retrieved, or asyncio would report what its caller left

    async def _make_group(self) -> None:
        """Make the group, on a new server or after Redis was restarted empty."""
        try:
            await self._answered(
                self._redis.xgroup_create(
                    _key(TopicName.OFFERS), _GROUP, id=_FROM_THE_FIRST, mkstream=True
                )
            )
        except LinkDown as error:
            if not str(error.__cause__).startswith("BUSYGROUP"):  # another worker was faster
                raise


class _NoGroup(Exception):
    """Raised when Redis does not know the group of workers."""


def _reason(error: BaseException) -> str:
    return f"Redis cannot be reached: {str(error) or type(error).__name__}"


def _key(topic: TopicName) -> str:
    return f"dragoman:{{lab}}:{topic}"
