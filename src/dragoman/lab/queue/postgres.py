"""Hints through PostgreSQL's notifications, which need no other server than the database.

Every worker is told of an offer, and asks the database for items that no other worker is taking.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from dragoman.errors import StoreError
from dragoman.lab.queue.remote import CarriedHint, LinkDown, TopicName
from dragoman.store import Notifications

_PREFIX = "dragoman_lab_"


class PostgresLink:
    """The way through the database."""

    keys_in_an_offer = 0

    def __init__(self, notifications: Notifications) -> None:
        self._notifications = notifications

    async def send(self, messages: Sequence[CarriedHint]) -> None:
        told = [(_PREFIX + message.topic, message.payload.decode()) for message in messages]
        try:
            await self._notifications.tell(told)
        except StoreError as error:
            raise LinkDown(error.message) from error

    async def hear(self) -> AsyncGenerator[CarriedHint]:
        channels = [_PREFIX + topic for topic in TopicName]
        try:
            async with aclosing(self._notifications.listen(channels)) as told:
                async for channel, payload in told:
                    yield CarriedHint(TopicName(channel.removeprefix(_PREFIX)), payload.encode())
        except StoreError as error:
            raise LinkDown(error.message) from error

    async def close(self) -> None:
        await self._notifications.close()
