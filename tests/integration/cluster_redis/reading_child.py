"""A process of its own that takes the notes of an inbox, prints them, and never strikes them out.

Usage: reading_child REDIS_URL KEY_PREFIX INSTANCE_ID
"""

from __future__ import annotations

import asyncio
import os
import sys
from random import Random

from tests.integration.cluster_redis.notes import CARD

from dragoman.ids import InstanceId
from dragoman.live.cluster import Handed, RedisPeers


async def main(url: str, key_prefix: str, name: str) -> None:
    peers = RedisPeers(url, InstanceId(name), Random(), key_prefix=key_prefix)
    await peers.join(CARD)
    os.write(sys.stdout.fileno(), b"joined\n")
    in_hand: set[str] = set()
    while True:
        handed = await peers.take(2, in_hand=in_hand)
        assert isinstance(handed, Handed)
        received = await peers.receive(2, 10)
        for delivery in (*handed.deliveries, *received.deliveries):
            in_hand.add(delivery.entry_id)
            os.write(sys.stdout.fileno(), f"{delivery.entry_id}\n".encode())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
