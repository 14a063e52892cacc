"""The live plane of one instance: its rooms, wired."""

from __future__ import annotations

import asyncio

from dragoman.auth import Authenticator, Permission
from dragoman.clock import Clock
from dragoman.ids import InstanceId
from dragoman.live.dispatch import Dispatcher
from dragoman.live.fleet import Feedback, HttpCatalogSource, Registry, ServiceCatalog
from dragoman.live.gateway import rules
from dragoman.live.gateway.connections import Connections
from dragoman.live.gateway.endpoint import Caller, Endpoint
from dragoman.live.gateway.node_handler import NodeDecoder, NodeHandler
from dragoman.live.gateway.session_handler import SessionHandler
from dragoman.live.ledger import Ledger, MemoryLedger
from dragoman.live.protocol import (
    FROM_CLIENT,
    ClientToScheduler,
    NodeToScheduler,
)
from dragoman.live.sessions import (
    Budget,
    MemoryRecords,
    Sessions,
    Tools,
)
from dragoman.live.snapshot import PoolRule, SnapshotHolder
from dragoman.live.stats import StatsCache, StatsSource
from dragoman.observability import Metrics, Tracing, Watch
from dragoman.randomness import Randomness
from dragoman.settings import Settings


class LivePlane:
    """Nodes, jobs and, around them, what keeps both true."""

    def __init__(
        self,
        *,
        settings: Settings,
        ledger: Ledger,
        authenticator: Authenticator,
        connections: Connections,
        metrics: Metrics,
        instance_id: InstanceId,
        clock: Clock,
        randomness: Randomness,
        tracing: Tracing | None = None,
    ) -> None:
        self.ledger = ledger
        # In memory a step of the ledger never waits, and so a frame is handled where it arrives.
        at_once = isinstance(ledger, MemoryLedger)
        warn = settings.scheduler.observability
        watch = Watch(
            metrics,
            clock,
            path_warn_ms=warn.path_warn_ms,
            lock_wait_warn_ms=warn.lock_wait_warn_ms,
        )
        self.snapshots = SnapshotHolder(PoolRule(settings.scheduler.pools.rule))
        self.registry = Registry(
            ledger=ledger,
            snapshots=self.snapshots,
            rules=rules.health_rules(settings),
            default_slots=settings.scheduler.max_concurrent_jobs_per_node,
            exclusive_names=settings.auth.mode == "keys",
            metrics=metrics,
            watch=watch,
            instance_id=instance_id,
            clock=clock,
            random=randomness.stream("registry"),
        )
        catalog = settings.scheduler.service_catalog
        self.catalog = ServiceCatalog(
            rules.catalog_rules(settings),
            HttpCatalogSource(catalog.url, catalog.timeout_seconds) if catalog.url else None,
            metrics,
            clock,
        )
        self.feedback = Feedback(
            rules.feedback_rules(settings),
            nodes=self.registry,
            follow_up=self.catalog.refresh_soon,
            metrics=metrics,
            clock=clock,
        )
        self.dispatcher = Dispatcher(
            ledger=ledger,
            snapshots=self.snapshots,
            nodes=self.registry,
            terms=rules.terms(settings),
            selection=rules.selection(settings),
            limits=rules.dispatch_limits(settings),
            on_ended=self.catalog.job_ended,
            metrics=metrics,
            watch=watch,
            instance_id=instance_id,
            clock=clock,
            random=randomness.stream("dispatch"),
            tracing=tracing,
        )
        self.registry.attach(self.dispatcher.events)
        self.node_endpoint: Endpoint[NodeToScheduler] = Endpoint(
            name="node",
            decoder=NodeDecoder(),
            authenticator=authenticator,
            permission=Permission.NODE_SOCKET,
            handler=self._node_handler,
            limits=rules.node_connection_limits(settings),
            connections=connections,
            clock=clock,
            random=randomness.stream("node connections"),
            allowed_origins=frozenset(settings.server.allowed_origins),
            at_once=at_once,
        )
        self.sessions = Sessions(
            Tools(
                dispatcher=self.dispatcher,
                ledger=ledger,
                records=MemoryRecords(settings.limits.session_queue),
                rules=rules.session_rules(settings),
                budget=Budget(settings.limits.buffered_bytes),
                metrics=metrics,
                clock=clock,
                tracing=tracing,
            ),
            instance_id,
            randomness.stream("sessions"),
        )
        source = StatsSource(
            registry=self.registry,
            sessions=self.sessions,
            dispatcher=self.dispatcher,
            ledger=ledger,
            metrics=metrics,
            clock=clock,
            top_k=warn.top_k,
        )
        self.stats = StatsCache(source.take, settings.scheduler.stats, metrics, watch, clock)
        self.session_endpoint: Endpoint[ClientToScheduler] = Endpoint(
            name="session",
            decoder=FROM_CLIENT,
            authenticator=authenticator,
            permission=Permission.SESSION_SOCKET,
            handler=self._session_handler,
            limits=rules.session_connection_limits(settings),
            connections=connections,
            clock=clock,
            random=randomness.stream("session connections"),
            allowed_origins=frozenset(settings.server.allowed_origins),
            at_once=at_once,
        )
        self._loops: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin the loops in the background."""
        self.catalog.load_local_index()
        loop = asyncio.get_running_loop()
        self._loops = [
            loop.create_task(self.registry.run(), name="registry"),
            loop.create_task(self.feedback.run(), name="feedback"),
            loop.create_task(self.catalog.run(), name="catalog"),
            loop.create_task(self.dispatcher.upkeep.run(), name="upkeep"),
            loop.create_task(self.sessions.run(), name="sessions"),
            loop.create_task(self.stats.run(), name="stats"),
        ]

    async def drain(self) -> None:
        """Take no new work, and return when the work in hand has ended."""
        self.dispatcher.drain()
        await self.dispatcher.wait_idle()

    async def stop(self) -> None:
        for task in self._loops:
            task.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        await self.dispatcher.stop()
        await self.registry.stop()
        await self.ledger.close()

    def _session_handler(self, caller: Caller) -> SessionHandler:
        return SessionHandler(caller, self.sessions)

    def _node_handler(self, caller: Caller) -> NodeHandler:
        return NodeHandler(caller, self.registry, self.dispatcher.events, self.feedback)
