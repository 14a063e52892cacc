"""taskiq: an asyncio queue, here on a Redis list."""

from __future__ import annotations

import asyncio
import os

from taskiq_redis import (  # type: ignore[import-not-found]
    ListQueueBroker,
    RedisAsyncResultBackend,
)

from benchmarks.full_job.peers.measuring import produce

REDIS_URL = os.environ["BENCH_REDIS_URL"]

broker = ListQueueBroker(REDIS_URL).with_result_backend(RedisAsyncResultBackend(REDIS_URL))


async def noop() -> None:
    """Nothing."""


task = broker.register_task(noop, task_name="noop")


async def main() -> None:
    await broker.startup()

    async def job() -> None:
        sent = await task.kiq()
        await sent.wait_result()

    await produce(job)
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
