"""SAQ: an asyncio queue on Redis."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from saq import Queue  # type: ignore[import-not-found]

from benchmarks.full_job.peers.measuring import IN_FLIGHT, produce

queue = Queue.from_url(os.environ["BENCH_REDIS_URL"])


async def noop(context: dict[str, Any]) -> None:
    """Nothing."""


settings = {"queue": queue, "functions": [noop], "concurrency": IN_FLIGHT}


async def main() -> None:
    await queue.connect()
    # Its worker sweeps as it starts, and may sweep a job that has just come: that one goes again.
    await produce(lambda: queue.apply("noop", retries=5))
    await queue.disconnect()


if __name__ == "__main__":
    asyncio.run(main())
