"""A process of its own that lives in a cluster and prints what it is told, as it is told.

Usage: living_child REDIS_URL KEY_PREFIX INSTANCE_ID
"""

from __future__ import annotations

import asyncio
import os
import sys
from random import Random

from tests.integration.cluster_redis.notes import CARD, QUICK

from dragoman.clock import SystemClock
from dragoman.ids import InstanceId
from dragoman.live.cluster import (
    Card,
    CleanUp,
    Fence,
    InboxReader,
    Membership,
    Note,
    Pulse,
    RedisPeers,
)
from dragoman.observability import Metrics


class Holder:
    """Prints each call."""

    def card(self) -> Card:
        return CARD

    async def fence(self, why: Fence) -> None:
        _print(f"fenced {why}")

    async def inherit(self, gone: CleanUp, notes: tuple[Note, ...]) -> None:
        _print(f"inherited {gone.instance_id} {len(notes)}")


async def main(url: str, key_prefix: str, name: str) -> None:
    clock = SystemClock()
    peers = RedisPeers(url, InstanceId(name), Random(), QUICK, key_prefix=key_prefix)
    pulse = Pulse(QUICK.presence_ttl_ms / 1000, clock.monotonic())
    membership = Membership(peers, Holder(), pulse=pulse, clock=clock, terms=QUICK)

    async def handle(note: Note, age_seconds: float) -> None:
        _print(f"handled {type(note).__name__}")

    reader = InboxReader(peers, handle, pulse=pulse, clock=clock, terms=QUICK, metrics=Metrics())
    await membership.join()
    _print("joined")
    async with asyncio.TaskGroup() as life:
        life.create_task(membership.run())
        life.create_task(reader.run())


def _print(what: str) -> None:
    os.write(sys.stdout.fileno(), f"{what}\n".encode())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
