"""The ledger on Redis: any number of processes, one truth."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random

from dragoman.ids import JOB_SHARDS
from dragoman.live.ledger.redis.attempts import AttemptOperations
from dragoman.live.ledger.redis.directory import DirectoryOperations
from dragoman.live.ledger.redis.granting import GrantOperations
from dragoman.live.ledger.redis.jobs import JobOperations
from dragoman.live.ledger.redis.seats import SeatOperations
from dragoman.live.ledger.redis.tags import Tags
from dragoman.live.ledger.redis.whereabouts import Whereabouts
from dragoman.redis_servers import Caller, open_servers


class RedisLedger(
    DirectoryOperations, SeatOperations, GrantOperations, AttemptOperations, JobOperations
):
    """Slots, leases, bindings and attempts on a Redis server or a Redis Cluster.

    Every operation is one script on the keys of one hash tag, and leases run on the server's
    time. Nothing is retried behind the asker's back: when the server does not answer in time,
    `DependencyDown` is raised, the outcome is unknown, and asking again is safe.
    """

    def __init__(
        self,
        url: str,
        random: Random,
        *,
        cluster: bool = False,
        key_prefix: str = "dragoman:v1",
        timeout_ms: int = 1_000,
        cell_size: int = 100,
        max_cells: int = 1_000,
        cell_ttl_ms: int = 2 * 3_600_000,
        job_ttl_ms: int = 3_600_000,
        time_shift_ms: Callable[[], int] | None = None,
        on_answer: Callable[[str, float], None] | None = None,
    ) -> None:
        """Nothing is sent until the first operation.

        cell_ttl_ms is how long a cell without writes is kept: longer than offline nodes
        are remembered. job_ttl_ms is how much longer than their last deadline jobs are kept when
        no sweep finds them. time_shift_ms is added to the server's time, for tests. on_answer is
        told the name of each operation that was answered, and its seconds.
        """
        servers = open_servers(url, timeout_ms, cluster=cluster)
        self.caller = Caller(servers, timeout_ms, on_answer)
        """For others who keep things on the same servers: what is asked together goes together."""
        self._where = Whereabouts()
        self._tags = Tags(
            self.caller,
            random,
            key_prefix=key_prefix,
            cell_size=cell_size,
            max_cells=max_cells,
            cell_ttl_ms=cell_ttl_ms,
            job_ttl_ms=job_ttl_ms,
            time_shift_ms=time_shift_ms,
        )

    @property
    def operations(self) -> Counter[str]:
        """How often each operation was asked for."""
        return self._tags.operations

    @property
    def exchanges(self) -> int:
        """How often commands went to a server and answers came back."""
        return self.caller.exchanges

    async def slots_held(self) -> int:
        cells = await self.cells()
        sizes = await asyncio.gather(*(self._tags.ask_cell(cell, "cell_size") for cell in cells))
        return sum(held for _, held, _ in sizes)

    async def size(self) -> dict[str, int]:
        tags = self._tags
        (nodes,) = await tags.ask_directory("directory_size")
        cells = await asyncio.gather(
            *(tags.ask_cell(cell, "cell_size") for cell in range(tags.max_cells))
        )
        shards = await asyncio.gather(
            *(tags.ask_shard(shard, "shard_size") for shard in range(JOB_SHARDS))
        )
        return {
            "nodes": nodes,
            "seats": sum(seats for seats, _, _ in cells),
            "held": sum(held for _, held, _ in cells),
            "ended": sum(ended for _, _, ended in cells),
            "jobs": sum(jobs for jobs, _, _ in shards),
            "bindings": sum(bindings for _, bindings, _ in shards),
            "inputs": sum(inputs for _, _, inputs in shards),
        }

    async def close(self) -> None:
        """Close the connections; pending requests are refused."""
        await self._tags.finish()
        await self.caller.close()
