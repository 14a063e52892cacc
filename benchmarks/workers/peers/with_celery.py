"""Celery: workers with threads, Redis as the broker, no result backend."""

from __future__ import annotations

import sys

from celery import Celery  # type: ignore[import-not-found]

from benchmarks.workers.peers.storing import REDIS_URL, carry_out, produce

app = Celery("with_celery", broker=REDIS_URL)
app.conf.task_ignore_result = True
task = app.task(carry_out, name="carry_out")

if __name__ == "__main__":
    produce(int(sys.argv[1]), task.delay)
