"""What every part of a server is built from, opened once and handed down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

import sqlalchemy as sa

from dragoman.api.lifecycle import Lifecycle
from dragoman.api.readiness import Readiness
from dragoman.audit import AuditLog, AuditStore
from dragoman.auth import Authenticator, KeyAuthenticator, KeyStore, OpenAuthenticator
from dragoman.clock import Clock
from dragoman.ids import InstanceId, new_id
from dragoman.live.budget import ByteBudget
from dragoman.live.dispatch import JobDispatcher
from dragoman.live.gateway import Connections
from dragoman.live.ledger import JobRecord
from dragoman.live.protocol import LiveSampleView
from dragoman.observability import LoopLag, Metrics, Tracing, open_tracing
from dragoman.randomness import Randomness
from dragoman.settings import Settings
from dragoman.store import Store, StoreConnection, open_store, upgrade

_AUTOMATIC = "auto"

Exposition = Callable[[bytes], Awaitable[bytes]]
"""Takes metrics in the Prometheus text format, and gives them back with more."""


class LiveSamplePort(Protocol):
    """What the live plane knows of the sample of its traffic that is scored."""

    def watch(self, dispatcher: JobDispatcher) -> None:
        """Be told of jobs that succeed."""

    async def view(self, record: JobRecord) -> LiveSampleView:
        """Whether a job was scored, or why not."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Everything that rooms share within one server."""

    settings: Settings
    clock: Clock
    randomness: Randomness
    instance_id: InstanceId
    store: Store
    authenticator: Authenticator
    audit: AuditLog
    metrics: Metrics
    connections: Connections
    budget: ByteBudget
    """The bytes that this process keeps for others."""
    lifecycle: Lifecycle
    readiness: Readiness
    peer_url: str = ""
    """Where other instances of the cluster find this one."""
    own_url: str = ""
    """Where programs on this machine find this server."""
    tracing: Tracing | None = None
    """None: off."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where each setting's value came from; empty where a program gave the settings."""
    live_sample: list[LiveSamplePort] = field(default_factory=list)
    """Who scores a sample of live traffic, if the lab does; at most one."""
    other_metrics: list[Exposition] = field(default_factory=list)
    """What adds the metrics of other processes to those of this one."""


@asynccontextmanager
async def open_services(
    settings: Settings,
    clock: Clock,
    randomness: Randomness,
    peer_url: str = "",
    own_url: str = "",
    sources: Mapping[str, str] | None = None,
) -> AsyncIterator[Services]:
    """Open the database, brought up to date, and what stands on it; closed again at the end."""
    async with AsyncExitStack() as stack:
        instance_id = _instance_id(settings, randomness)
        tracing = None
        if settings.tracing.enabled:
            tracing = open_tracing(settings.tracing.endpoint, instance_id, clock)
            stack.push_async_callback(tracing.close)
        database_url = settings.store.database_url
        await asyncio.to_thread(upgrade, database_url)
        store = await stack.enter_async_context(await open_store(database_url))
        metrics = Metrics()
        metrics.describe_process()
        lag = LoopLag(metrics, clock)
        lag.start()
        stack.push_async_callback(lag.stop)
        lifecycle = Lifecycle()
        readiness = Readiness(lifecycle, clock)
        readiness.add("the database", lambda: store.read(_answer))
        yield Services(
            settings=settings,
            clock=clock,
            randomness=randomness,
            instance_id=instance_id,
            store=store,
            authenticator=await stack.enter_async_context(
                make_authenticator(settings, store, clock, randomness)
            ),
            audit=await stack.enter_async_context(
                AuditLog(AuditStore(store), clock, retention_days=settings.audit.retention_days)
            ),
            metrics=metrics,
            connections=Connections(
                per_address=settings.limits.sockets_per_address,
                per_key=settings.limits.sockets_per_key,
            ),
            budget=ByteBudget(settings.limits.buffered_bytes),
            lifecycle=lifecycle,
            readiness=readiness,
            peer_url=peer_url,
            own_url=own_url,
            tracing=tracing,
            sources=sources or {},
        )


def make_authenticator(
    settings: Settings, store: Store, clock: Clock, randomness: Randomness
) -> Authenticator:
    """Knows callers by the keys in the database, or lets every caller in, by the settings."""
    if settings.auth.mode == "open":
        return OpenAuthenticator()
    return KeyAuthenticator(
        KeyStore(store, clock, randomness.stream("key ids")),
        clock,
        failures_per_minute=settings.limits.auth_failures_per_minute,
        sign_in_seconds=round(settings.auth.sign_in_hours * 3600),
    )


def _instance_id(settings: Settings, randomness: Randomness) -> InstanceId:
    chosen = settings.cluster.instance_id
    if chosen == _AUTOMATIC:
        return InstanceId(new_id(randomness.stream("instance id"), "i"))
    return InstanceId(chosen)


def _answer(connection: StoreConnection) -> object:
    return connection.execute(sa.text("SELECT 1")).scalar()
