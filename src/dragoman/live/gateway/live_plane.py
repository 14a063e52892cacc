"""The live plane of one instance: its rooms, wired."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TypeVar

from dragoman.auth import Authenticator, Permission
from dragoman.clock import Clock
from dragoman.errors import DependencyDown, InvalidMessage
from dragoman.ids import InstanceId, JobId, SessionId, shard_in
from dragoman.live.budget import ByteBudget
from dragoman.live.cluster import Card, Cluster, Limited, Pulse
from dragoman.live.dispatch import ClusterLedger, JobDispatcher, MemoryLedger, Share
from dragoman.live.fleet import Feedback, HttpCatalogSource, Registry, ServiceCatalog
from dragoman.live.gateway import rules
from dragoman.live.gateway.cluster import (
    ClusterMember,
    OtherStats,
    Outbox,
    Roster,
    SessionInbox,
    SessionPost,
    TenantLeases,
    cluster_terms,
)
from dragoman.live.gateway.connections import Connections
from dragoman.live.gateway.endpoint import Caller, Endpoint, Handler
from dragoman.live.gateway.listen_handler import ListenAuthenticator, ListenHandler, Wanted
from dragoman.live.gateway.node_handler import NodeDecoder, NodeHandler
from dragoman.live.gateway.session_handler import SessionHandler, WaitingSockets
from dragoman.live.protocol import (
    FROM_CLIENT,
    ClientToScheduler,
    NodeToScheduler,
)
from dragoman.live.sessions import RecentDeliveries, SessionContext, Sessions
from dragoman.live.shared import SharedLedger
from dragoman.live.snapshot import PoolRule, SnapshotHolder
from dragoman.live.stats import StatsCache, StatsSource
from dragoman.observability import LimitWatch, Metrics, Tracing
from dragoman.randomness import Randomness, Secrets
from dragoman.settings import Settings

M = TypeVar("M")


_SPEAKER_BACK_MS = 1_000
"""When a listener asks again whose speaker changes from one instance to another."""


class LivePlane:
    """Nodes, jobs and, around them, what keeps both true."""

    def __init__(
        self,
        *,
        settings: Settings,
        ledger: MemoryLedger | SharedLedger,
        authenticator: Authenticator,
        connections: Connections,
        metrics: Metrics,
        instance_id: InstanceId,
        clock: Clock,
        randomness: Randomness,
        secrets: Secrets | None = None,
        budget: ByteBudget | None = None,
        tracing: Tracing | None = None,
        cluster: Cluster | None = None,
        url: str = "",
    ) -> None:
        """With a cluster, this is one instance of several over one shared ledger; url is where the
        others find it. secrets are the operating system's unless a simulation passes its own;
        budget is shared with whatever else keeps bytes in this process.
        """
        secrets = secrets or Secrets()
        self.ledger: MemoryLedger | ClusterLedger
        self.shared: SharedLedger | None = None
        """What instances share; None: this one is alone."""
        if isinstance(ledger, MemoryLedger):
            self.ledger = ledger
        else:
            self.shared = ledger
            self.ledger = ClusterLedger(
                ledger, rules.shared_terms(settings), instance_id, clock, randomness.stream("jobs")
            )
        self._instance_id = instance_id
        self._clock = clock
        self._url = url
        self._started_at_ms = clock.now_ms()
        self._draining = False
        self._common = rules.common_settings(settings)
        roster = Roster(cluster, instance_id, self._common) if cluster is not None else None
        outbox = Outbox(cluster, roster) if cluster is not None and roster is not None else None
        terms = cluster_terms(settings)
        self._pulse = Pulse(terms.presence_ttl_ms / 1000, clock.monotonic())
        warn = settings.scheduler.observability
        watch = LimitWatch(
            metrics,
            clock,
            path_warn_ms=warn.path_warn_ms,
            lock_wait_warn_ms=warn.lock_wait_warn_ms,
        )
        self.snapshots = SnapshotHolder(PoolRule(settings.scheduler.pools.rule))
        self.registry = Registry(
            ledger=self.ledger,
            snapshots=self.snapshots,
            rules=rules.health_rules(settings),
            default_slots=settings.scheduler.max_concurrent_jobs_per_node,
            exclusive_names=settings.auth.mode == "keys",
            metrics=metrics,
            watch=watch,
            instance_id=instance_id,
            clock=clock,
            secrets=secrets,
            peers=outbox,
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
            follow_up=self._model_missed,
            metrics=metrics,
            clock=clock,
        )
        tenant_sessions: TenantLeases[SessionId] | None = None
        tenant_jobs: TenantLeases[JobId] | None = None
        if cluster is not None and settings.limits.sessions_per_tenant:
            limit = settings.limits.sessions_per_tenant
            tenant_sessions = TenantLeases(Limited.SESSIONS, cluster, limit)
        if cluster is not None and settings.limits.max_inflight_per_tenant:
            limit = settings.limits.max_inflight_per_tenant
            tenant_jobs = TenantLeases(Limited.IN_FLIGHT, cluster, limit)
        self._tenant_leases = [kind for kind in (tenant_sessions, tenant_jobs) if kind is not None]
        budget = self.budget = budget or ByteBudget(settings.limits.buffered_bytes)
        if isinstance(ledger, MemoryLedger):
            budget.include(ledger.kept, ledger.let_go)
        metrics.buffered_bytes.set_function(lambda: budget.used)
        metrics.buffered_bytes_max.set(settings.limits.buffered_bytes)
        metrics.sessions_max.set(settings.limits.max_sessions)
        session_rules = rules.session_rules(settings)
        self.dispatcher = JobDispatcher(
            ledger=self.ledger,
            snapshots=self.snapshots,
            nodes=self.registry,
            terms=rules.driver_terms(settings),
            selection=rules.selection_rules(settings),
            inflight_per_tenant=settings.limits.max_inflight_per_tenant,
            explain_max=settings.scheduler.explain_max,
            routes=settings.limits.max_sessions,
            metrics=metrics,
            watch=watch,
            catalog=self.catalog,
            clock=clock,
            random=randomness.stream("dispatch"),
            budget=budget,
            tracing=tracing,
            instance_id=instance_id,
            peers=outbox,
            share=roster.share if roster is not None else Share,
            tenant_jobs=tenant_jobs,
            cold=lambda: self.registry.far.cold,
        )
        self.sessions = Sessions(
            SessionContext(
                dispatcher=self.dispatcher,
                ledger=self.ledger,
                rules=session_rules,
                budget=budget,
                metrics=metrics,
                clock=clock,
                tracing=tracing,
                recent=RecentDeliveries(settings.scheduler.delivery.timeline_max),
                shared=self.shared,
                peers=SessionPost(outbox) if outbox is not None else None,
                tenants=tenant_sessions,
                watching=self.dispatcher if self.shared is not None else None,
                claim_ms=rules.shared_terms(settings).claim_ms,
                keep=rules.ledger_terms(settings).keep,
                renew_seconds=rules.session_record_ms(settings) / 3000,
            ),
            instance_id,
            secrets,
        )
        self.registry.attach(self.dispatcher.events)
        if outbox is not None:
            outbox.on_not_told = self.dispatcher.not_told
        stood_still = self._pulse.paused if cluster is not None else None
        self.node_endpoint: Endpoint[NodeToScheduler] = Endpoint(
            name="node",
            decoder=NodeDecoder(metrics),
            authenticator=authenticator,
            permission=Permission.NODE_SOCKET,
            handler=self._node_handler,
            limits=rules.node_connection_limits(settings),
            connections=connections,
            clock=clock,
            random=randomness.stream("node connections"),
            allowed_origins=frozenset(settings.server.allowed_origins),
            stood_still=stood_still,
            at_once=True,
        )
        self._waiting_sockets = WaitingSockets(
            session_rules.max_sessions, session_rules.first_message_seconds
        )
        other_stats: OtherStats | None = None
        if outbox is not None and roster is not None:
            other_stats = OtherStats(outbox, roster, instance_id)
        source = self.stats_source = StatsSource(
            registry=self.registry,
            sessions=self.sessions,
            dispatcher=self.dispatcher,
            ledger=self.ledger,
            metrics=metrics,
            clock=clock,
            top_k=warn.top_k,
            exchange=other_stats,
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
            stood_still=stood_still,
            at_once=True,
        )
        self._listen_endpoint = replace(
            self.session_endpoint,
            name="listen",
            authenticator=ListenAuthenticator(authenticator),
            random=randomness.stream("listen connections"),
        )
        self._roster = roster
        self._loops: list[asyncio.Task[None]] = []
        self.member: ClusterMember | None = None
        """The other instances; None: this one is alone."""
        if cluster is not None and roster and outbox and other_stats:
            assert isinstance(self.ledger, ClusterLedger), "instances share their ledger"
            self.member = ClusterMember(
                cluster=cluster,
                terms=terms,
                outbox=outbox,
                roster=roster,
                pulse=self._pulse,
                ledger=self.ledger,
                registry=self.registry,
                dispatcher=self.dispatcher,
                catalog=self.catalog,
                connections=connections,
                sessions=SessionInbox(self.sessions),
                stats=other_stats,
                card=self._card,
                reconcile_seconds=settings.cluster.reconcile_seconds,
                grace_seconds=settings.scheduler.node_health.reconnect_grace_seconds,
                forget_seconds=settings.scheduler.node_health.forget_offline_seconds,
                debounce_seconds=settings.scheduler.model_not_available.debounce_window_seconds,
                metrics=metrics,
                clock=clock,
            )

    async def start(self) -> None:
        """Begin the loops in the background."""
        self.catalog.load_local_index()
        if self.member is not None:
            await self.member.start()
        loop = asyncio.get_running_loop()
        self._loops = [
            loop.create_task(self.registry.run(), name="registry"),
            loop.create_task(self.feedback.run(), name="feedback"),
            loop.create_task(self.catalog.run(), name="catalog"),
            loop.create_task(self.dispatcher.upkeep.run(), name="upkeep"),
            loop.create_task(self.sessions.run(), name="sessions"),
            loop.create_task(self.stats.run(), name="stats"),
        ]
        for leases in self._tenant_leases:
            self._loops.append(loop.create_task(leases.run(), name="tenant leases"))

    async def drain(self) -> None:
        """Take no new work, and return when the work in hand has ended."""
        self._draining = True
        # What clients say from now on they say again to the instance that they go on with.
        await self.sessions.drain()
        self.dispatcher.drain()
        await self.dispatcher.wait_idle()

    async def stop(self) -> None:
        for task in self._loops:
            task.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        await self.dispatcher.stop()
        await self.registry.stop()
        if self.member is not None:
            await self.member.stop()
        await self.ledger.close()

    def _session_handler(self, caller: Caller) -> Handler[ClientToScheduler]:
        return SessionHandler(caller, self.sessions, self._waiting_sockets)

    def listen_endpoint(self, wanted: Wanted | InvalidMessage) -> Endpoint[ClientToScheduler]:
        """Where one comes in who listens to a session."""

        def handler(caller: Caller) -> Handler[ClientToScheduler]:
            return ListenHandler(
                caller,
                wanted,
                self.sessions,
                self._elsewhere,
                self._listen_endpoint.authenticator.count_wrong,
            )

        return replace(self._listen_endpoint, handler=handler)

    async def _elsewhere(self, session_id: SessionId) -> str | None:
        """The address of the other instance that has a session; None: there is no such session."""
        if self.shared is None or self._roster is None or shard_in(session_id) is None:
            return None
        record = await self.shared.read_session(session_id)
        if record is None:
            return None
        owner = record.owner.instance_id
        if owner not in self._roster.addresses():
            await self._roster.refresh()  # it may have come just now
        url = self._roster.addresses().get(owner)
        if url is None:
            raise DependencyDown(
                f"Session {session_id} has no instance until its speaker is back; try again.",
                retry_after_ms=_SPEAKER_BACK_MS,
            )
        return url

    def _node_handler(self, caller: Caller) -> Handler[NodeToScheduler]:
        return NodeHandler(
            caller,
            self.registry,
            self.dispatcher.events,
            self.feedback,
            self.node_endpoint.limits.max_frame_bytes,
            self._clock,
        )

    def _model_missed(self, service_id: str, version: str | None) -> None:
        if self.member is None:
            self.catalog.refresh_soon()
        else:
            self.member.model_missed(service_id, version)

    def _card(self) -> Card:
        return Card(
            url=self._url,
            started_at_ms=self._started_at_ms,
            draining=self._draining,
            nodes=len(self.registry),
            sessions=len(self.sessions),
            common=self._common,
        )
