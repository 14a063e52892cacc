"""One instance among others: present, reachable, up to date, and ready to clean up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from dragoman.clock import Clock
from dragoman.errors import DependencyDown
from dragoman.ids import InstanceId
from dragoman.live.cluster import (
    Card,
    CleanUp,
    Cluster,
    ClusterTerms,
    Fence,
    InboxReader,
    Membership,
    Note,
    Pulse,
)
from dragoman.live.dispatch import JobDispatcher
from dragoman.live.fleet import Registry, ServiceCatalog
from dragoman.live.gateway.cluster.cleanup import NodeCleaner
from dragoman.live.gateway.cluster.inbox import NoteHandler, SessionNotes
from dragoman.live.gateway.cluster.news import News, OtherStats
from dragoman.live.gateway.cluster.outbox import Outbox, Roster
from dragoman.live.gateway.cluster.remote_nodes import RemoteCells, SharedSeats
from dragoman.live.gateway.connections import Connections
from dragoman.live.gateway.wire import STOOD_STILL, CloseCode
from dragoman.observability import Metrics, get_logger
from dragoman.settings import Settings

log = get_logger("dragoman.cluster")

_CLOSING_SECONDS = 2.0
"""How long sockets may take to close when they must."""

_BREATH_SECONDS = 1.0
"""Between two tries to begin something that could not be begun."""


class ClusterMember:
    """Keeps this instance in its cluster: presence, inbox, feed, far nodes, clean-up."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        terms: ClusterTerms,
        outbox: Outbox,
        roster: Roster,
        pulse: Pulse,
        ledger: SharedSeats,
        registry: Registry,
        dispatcher: JobDispatcher,
        catalog: ServiceCatalog,
        connections: Connections,
        sessions: SessionNotes | None,
        stats: OtherStats,
        card: Callable[[], Card],
        reconcile_seconds: float,
        grace_seconds: float,
        forget_seconds: float,
        debounce_seconds: float,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self.cluster = cluster
        self.outbox = outbox
        self.roster = roster
        self.cells = RemoteCells(
            ledger, registry, outbox, every_seconds=reconcile_seconds, clock=clock
        )
        self._connections = connections
        self._catalog = catalog
        self._card = card
        self._reconcile_seconds = reconcile_seconds
        self._debounce_ms = int(debounce_seconds * 1000)
        self._forget_seconds = forget_seconds
        jobs = dispatcher.peer_messages
        assert jobs is not None, "a dispatcher among others hears of them"
        self._news = News(self.cells, jobs, catalog, stats)
        self._cleaner = NodeCleaner(
            ledger,
            cluster,
            dispatcher.events,
            outbox,
            self._spawn,
            grace_seconds=grace_seconds,
            clock=clock,
        )
        self._membership = Membership(cluster, self, pulse=pulse, clock=clock, terms=terms)
        handler = NoteHandler(registry, jobs, cluster.instance_id, sessions)
        self._reader = InboxReader(
            cluster,
            handler.handle,
            at_once=handler.handle_at_once,
            pulse=pulse,
            clock=clock,
            terms=terms,
            metrics=metrics,
        )
        self._registry = registry
        self._cut_off: set[InstanceId] = set()
        """Instances that were not there when they were written to."""
        self._name_taken = False
        """Whether another process goes by this instance's name, and this one is out for good."""
        outbox.on_gone = self._is_gone
        metrics.cluster_peers.set_function(lambda: len(roster.others()))
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Join, and learn who else is there; while the cluster is away, that happens later."""
        try:
            await self._membership.join()
            await self._cleaner.clean_up_before(self.cluster.instance_id)
            await self.roster.refresh()
            await self.cells.look_once()
        except DependencyDown as error:
            log.warning("cluster_away", error=error.message)
            self._spawn(self._stay(join=True))
        else:
            self._spawn(self._stay(join=False))
        self._spawn(self._listen())
        self._spawn(self._keep_roster())
        self._spawn(self.cells.run())

    async def stop(self) -> None:
        """Say goodbye to the others, and let go of the cluster."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.outbox.stop()
        await self._membership.leave()
        await self.cluster.close()

    async def check_belongs(self) -> None:
        """Raise when this instance is out of its cluster for good."""
        if self._name_taken:
            raise DependencyDown(
                f"Another process took the name {self.cluster.instance_id}; give each instance a "
                "cluster.instance_id of its own, and restart this one."
            )

    def model_missed(self, service_id: str, version: str | None) -> None:
        """A model was missed: of all instances that see it, one has the catalog read anew."""
        self._spawn(self._follow_up(service_id, version))

    # --- as a holder of sockets ------------------------------------------------------------------

    def card(self) -> Card:
        return self._card()

    async def fence(self, why: Fence) -> None:
        """Others may own what is connected here: nothing more is heard over these sockets."""
        if why is Fence.SUPERSEDED:
            log.error("instance_name_taken", instance_id=self.cluster.instance_id)
            self._name_taken = True
            self._connections.refuse_new()
        self._connections.close_all(CloseCode.DRAINING, STOOD_STILL)
        try:
            async with asyncio.timeout(_CLOSING_SECONDS):
                await self._connections.wait_empty()
        except TimeoutError:
            log.warning("sockets_left", sockets=len(self._connections))

    async def inherit(self, gone: CleanUp, notes: tuple[Note, ...]) -> None:
        """Its nodes are cut off by their exact connections, and with that its notes are done.

        Every note speaks of a connection, a session or a job that the instance held. Those are
        gone with it: attempts are ended with their nodes, jobs are taken up when their claims
        run out, sessions are resumed from their records.
        """
        await self._cleaner.clean_up_after(gone)

    # --- loops -----------------------------------------------------------------------------------

    async def _stay(self, *, join: bool) -> None:
        while join:
            await asyncio.sleep(_BREATH_SECONDS)
            try:
                await self._membership.join()
            except DependencyDown:
                continue
            break
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(self._reader.run())
            await self._membership.run()
            reading.cancel()

    async def _listen(self) -> None:
        while True:
            try:
                await self.cluster.listen(self._news.heard, self._news.missed_some)
            except DependencyDown as error:
                log.warning_limited("feed_lost", key="feed", every_seconds=10, error=error.message)
            await asyncio.sleep(_BREATH_SECONDS)

    async def _keep_roster(self) -> None:
        while True:
            await asyncio.sleep(self._reconcile_seconds)
            try:
                await self.roster.refresh()
                await self._cleaner.forget_long_gone(self._registry.far, self._forget_seconds)
            except DependencyDown as error:
                log.warning_limited(
                    "roster_not_read", key="roster", every_seconds=10, error=error.message
                )
            self._see_who_is_back()

    def _see_who_is_back(self) -> None:
        if not self._cut_off:
            return
        if not self._cut_off.isdisjoint(self.roster.others()):
            self._cut_off.difference_update(self.roster.others())
            self.cells.read_anew()
        # One that has no nodes any more is of no interest.
        self._cut_off &= {node.owner.instance_id for node in self._registry.far}

    def _is_gone(self, instance_id: InstanceId) -> None:
        """Its nodes are as good as offline, until it is back or a peer has marked them so."""
        self._cut_off.add(instance_id)
        self._registry.far.cut_off(instance_id)

    async def _follow_up(self, service_id: str, version: str | None) -> None:
        try:
            key = f"model:{service_id}:{version or ''}"
            if not await self.cluster.first_in_window(key, self._debounce_ms):
                return
        except DependencyDown:
            # Without the others this instance asks for itself.
            self._catalog.refresh_soon()
            return
        self._catalog.refresh_soon()
        self.outbox.model_missed(service_id, version)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, DependencyDown):
            log.warning_limited("clean_up_unfinished", key="task", every_seconds=10)
        elif error is not None:
            log.error("cluster_task_failed", error=repr(error))


def cluster_terms(settings: Settings) -> ClusterTerms:
    """The times and bounds that all instances of the cluster go by."""
    cluster = settings.cluster
    return ClusterTerms(
        presence_ttl_ms=int(cluster.presence_ttl_seconds * 1000),
        owner_ttl_ms=int(cluster.owner_ttl_seconds * 1000),
        inbox_max=cluster.stream_maxlen,
        reclaim_idle_ms=cluster.reclaim_idle_ms,
        max_deliveries=cluster.dlq_max_deliveries,
        dead_letters_max=cluster.dlq_maxlen,
    )
