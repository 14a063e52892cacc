"""Celery: one solo worker on Redis."""

from __future__ import annotations

import os
from collections.abc import Callable

from celery import Celery  # type: ignore[import-not-found]

from benchmarks.full_job.peers.measuring import produce_in_batches

REDIS_URL = os.environ["BENCH_REDIS_URL"]

app = Celery("with_celery", broker=REDIS_URL, backend=REDIS_URL)
app.conf.worker_prefetch_multiplier = 100


def noop() -> None:
    """Nothing."""


task = app.task(noop, name="noop")


def batch(size: int) -> list[Callable[[], object]]:
    return [task.delay().get for _ in range(size)]


if __name__ == "__main__":
    produce_in_batches(batch)
