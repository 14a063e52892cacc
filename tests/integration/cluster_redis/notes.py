"""Words that the tests of the cluster on Redis share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from dragoman.errors import DependencyDown
from dragoman.ids import JobId
from dragoman.live.cluster import Card, ClusterTerms, EndedNote, Handed, NoteDelivery, RedisPeers

T = TypeVar("T")

CARD = Card(url="http://10.0.0.1:8080", started_at_ms=1_700_000_000_000)

QUICK = ClusterTerms(presence_ttl_ms=1_500, owner_ttl_ms=2_500)
"""Terms under which a test need not wait long for an instance to count as gone."""


def ended(number: int) -> EndedNote:
    return EndedNote(JobId(f"j-{number}"))


async def take(peers: RedisPeers, count: int = 100) -> tuple[NoteDelivery, ...]:
    handed = await peers.take(count)
    assert isinstance(handed, Handed)
    return handed.deliveries


async def until_it_answers(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until Redis is there again."""
    while True:
        try:
            return await ask()
        except DependencyDown:
            await asyncio.sleep(0)


async def until(holds: Callable[[], bool], what: str) -> None:
    """Return as soon as something is so."""
    try:
        async with asyncio.timeout(20):
            while not holds():  # noqa: ASYNC110
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"waited in vain until {what}") from None
