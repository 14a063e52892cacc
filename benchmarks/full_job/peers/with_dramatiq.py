"""Dramatiq: threads on Redis."""

from __future__ import annotations

import os
from collections.abc import Callable

import dramatiq  # type: ignore[import-not-found]
from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found]
from dramatiq.results import Results  # type: ignore[import-not-found]
from dramatiq.results.backends import RedisBackend  # type: ignore[import-not-found]

from benchmarks.full_job.peers.measuring import produce_in_batches

REDIS_URL = os.environ["BENCH_REDIS_URL"]

broker = RedisBroker(url=REDIS_URL)
broker.add_middleware(Results(backend=RedisBackend(url=REDIS_URL)))
dramatiq.set_broker(broker)


def noop() -> int:
    """Nothing; but a result must be something."""
    return 0


actor = dramatiq.actor(noop, store_results=True)


def batch(size: int) -> list[Callable[[], object]]:
    return [_fetch(actor.send()) for _ in range(size)]


def _fetch(message: dramatiq.Message) -> Callable[[], object]:
    return lambda: message.get_result(block=True, timeout=30_000)


if __name__ == "__main__":
    produce_in_batches(batch)
