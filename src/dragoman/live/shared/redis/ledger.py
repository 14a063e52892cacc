"""The shared ledger on Redis: shards and cells on one server or in one Redis Cluster."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

from dragoman.errors import CannotStart, DependencyDown
from dragoman.ids import AttemptId, SessionId
from dragoman.live.ledger import Cold, Sender, Stale
from dragoman.live.shared import records as r
from dragoman.live.shared.hot import HotOperations, awaited
from dragoman.live.shared.redis.cells import RedisCells
from dragoman.live.shared.redis.directory import RedisDirectory
from dragoman.live.shared.redis.other_models import OtherModels
from dragoman.live.shared.redis.server import FunctionServer
from dragoman.live.shared.redis.shards import RedisShards
from dragoman.redis_servers import RedisPipeline, open_servers

_NO_SESSION = SessionId("s-00")
"""In a shard, and no session's."""


class _Hot:
    """What is answered through a callback."""

    def __init__(self, shards: RedisShards, cells: RedisCells) -> None:
        self.open, self.close = shards.open, shards.close
        self.reserve, self.finish = cells.reserve, cells.finish


class RedisSharedLedger:
    """What instances share, on a Redis server or a Redis Cluster.

    An operation is one function on the keys of one hash tag, and times are the server's. None is
    retried behind the asker's back but where the server said that it did nothing: when the server
    does not answer in time, `DependencyDown` is raised, the outcome is unknown, and asking again
    is safe.
    """

    def __init__(
        self,
        url: str,
        random: Random,
        *,
        keep_delivered: int,
        session_ms: int,
        cluster: bool = False,
        key_prefix: str = "dragoman",
        timeout_ms: int = 1_000,
        cell_size: int = 100,
        max_cells: int = 1_000,
        cell_ttl_ms: int = 2 * 3_600_000,
        job_ttl_ms: int = 3_600_000,
        time_ms: Callable[[], int] | None = None,
        on_answer: Callable[[str, float], None] | None = None,
        on_full: Callable[[], None] | None = None,
    ) -> None:
        """Nothing is sent until the first operation.

        keep_delivered is how many unacknowledged deliveries of a session are kept whole.
        session_ms is how long a session's record lives without a write or a renewal. cell_ttl_ms
        is how long a cell is kept that no sweep visits, job_ttl_ms how much longer than its
        deadline an open job is kept when no instance drives it. time_ms is the time to go by
        instead of the server's, for tests. on_answer is told the name of each call that was
        answered, and its seconds; on_full is called for each that was refused for want of memory.
        """
        servers = open_servers(url, timeout_ms, cluster=cluster)
        self.caller = RedisPipeline(servers, timeout_ms, on_answer, on_full)
        """For others who keep things on the same servers: what is asked together goes together."""
        server = FunctionServer(self.caller, random, key_prefix=key_prefix, time_ms=time_ms)
        shards = RedisShards(
            server, keep_delivered=keep_delivered, session_ms=session_ms, job_ttl_ms=job_ttl_ms
        )
        cells = RedisCells(server, cell_size=cell_size, cell_ttl_ms=cell_ttl_ms)
        directory = RedisDirectory(server, cell_size=cell_size, max_cells=max_cells)
        self._server, self._shards, self._cells, self._directory = (
            server,
            shards,
            cells,
            directory,
        )

        self._others = OtherModels(self.caller, cells, directory, key_prefix)

        # Who answers what. Bound here, so that a call goes straight there.
        self.hot: HotOperations = _Hot(shards, cells)
        self.move = shards.move
        self.renew, self.take_over, self.release = shards.renew, shards.take_over, shards.release
        self.read, self.read_open = shards.read, shards.read_open
        self.due, self.recent, self.list_again = shards.due, shards.recent, shards.list_again
        self.begin_session, self.restore_session = shards.begin_session, shards.restore_session
        self.take_session, self.deliver = shards.take_session, shards.deliver
        self.acknowledge, self.renew_sessions = shards.acknowledge, shards.renew_sessions
        self.end_session, self.read_session = shards.end_session, shards.read_session
        self.keep_past, self.read_past = shards.keep_past, shards.read_past

        self.step = cells.step
        self.preempt, self.cancel, self.drop = cells.preempt, cells.cancel, cells.drop
        self.settle, self.look, self.mark_asked = cells.settle, cells.look, cells.mark_asked
        self.adopt, self.due_attempts = cells.adopt, cells.due_attempts
        self.outlook, self.seat, self.beat = cells.outlook, cells.seat, cells.beat
        self.amend, self.set_drained = cells.amend, cells.set_drained
        self.disconnect, self.lose, self.remove = cells.disconnect, cells.lose, cells.remove
        self.read_cell, self.cell_version = cells.read_cell, cells.cell_version
        self.read_changes = cells.read_changes

        self.register, self.forget = directory.register, directory.forget
        self.lookup, self.members = directory.lookup, directory.members
        self.cells = directory.cells

    # The same as `hot`, for those who wait.

    async def open(self, opening: r.UtteranceOpening) -> r.Opened | r.Behind | r.NotOwner:
        return await awaited(partial(self.hot.open, opening))

    async def close(self, closing: r.Closing) -> r.Closed | r.NotCurrent | r.HasEnded | r.NoJob:
        return await awaited(partial(self.hot.close, closing))

    async def reserve(self, ask: r.SlotAsk) -> r.Granted | r.Full | r.Gone:
        return await awaited(partial(self.hot.reserve, ask))

    async def finish(
        self, cell: int, attempt_id: AttemptId, sender: Sender, finish: r.Finish
    ) -> r.FreedSlot | r.LateFinish | Stale | Cold:
        return await awaited(partial(self.hot.finish, cell, attempt_id, sender, finish))

    async def start(self) -> None:
        """Raise CannotStart beside instances of another data model; take over its nodes.

        A server that does not take the functions says so here, not when the first job comes.
        """
        try:
            await asyncio.gather(
                self._shards.read_session(_NO_SESSION),
                self._cells.read_cell(0),
                self._directory.count(),
            )
        except DependencyDown as error:
            if self.caller.may_load:
                raise
            raise CannotStart(error.message) from error
        await self._others.refuse_beside()
        await self._others.copy_nodes()

    @property
    def key_prefix(self) -> str:
        """What all keys begin with, before the version of the data model."""
        return self._server.key_prefix

    @property
    def operations(self) -> Counter[str]:
        """How often each function and command was sent."""
        return self._server.operations

    @property
    def exchanges(self) -> int:
        """How often commands went to a server and answers came back."""
        return self.caller.exchanges

    async def size(self) -> dict[str, int]:
        """How many things of each kind are kept, over the cells that have or had nodes here."""
        cells = set(await self._directory.cells()) | set(self._cells.seen)
        counts = await asyncio.gather(*(self._cells.count(cell) for cell in cells))
        total: Counter[str] = Counter()
        for count in counts:
            total.update(count)
        return {
            "nodes": await self._directory.count(),
            **{
                name: total[name] for name in ("seats", "held", "finished", "tombstones", "waiting")
            },
            **await self._shards.count(),
        }

    async def stop(self) -> None:
        """Write what still waits to be written, and close the connections."""
        await self._shards.stop()
        await self.caller.close()
