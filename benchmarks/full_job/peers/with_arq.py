"""arq: an asyncio queue on Redis."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from arq import create_pool  # type: ignore[import-not-found]
from arq.connections import RedisSettings  # type: ignore[import-not-found]

from benchmarks.full_job.peers.measuring import IN_FLIGHT, produce

REDIS = RedisSettings.from_dsn(os.environ["BENCH_REDIS_URL"])


async def noop(context: dict[str, Any]) -> None:
    """Nothing."""


class WorkerSettings:
    """What `arq` reads."""

    functions = (noop,)
    redis_settings = REDIS
    max_jobs = IN_FLIGHT
    poll_delay = 0.01


async def main() -> None:
    pool = await create_pool(REDIS)

    async def job() -> None:
        queued = await pool.enqueue_job("noop")
        await queued.result()

    await produce(job)
    await pool.aclose()


if __name__ == "__main__":
    asyncio.run(main())
