"""Dramatiq: workers with threads, Redis as the broker, no result backend."""

from __future__ import annotations

import sys

import dramatiq  # type: ignore[import-not-found]
from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found]

from benchmarks.workers.peers.storing import REDIS_URL, carry_out, produce

dramatiq.set_broker(RedisBroker(url=REDIS_URL))
actor = dramatiq.actor(carry_out)

if __name__ == "__main__":
    produce(int(sys.argv[1]), actor.send)
