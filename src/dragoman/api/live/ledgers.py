"""Where a server keeps its slots, jobs and sessions: in memory, or on Redis with others."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.api.services import Services
from dragoman.extras import require_extra
from dragoman.live import cluster as clusters
from dragoman.live import shared
from dragoman.live.dispatch import MemoryLedger
from dragoman.live.gateway import cluster_terms, rules


@dataclass(frozen=True, slots=True)
class Backends:
    """What the live plane is kept in."""

    ledger: MemoryLedger | shared.SharedLedger
    cluster: clusters.Cluster | None = None
    """None: this server is alone."""


def open_backends(services: Services) -> Backends:
    """What the settings ask for; a server that is not ready without it says so."""
    settings = services.settings
    if settings.cluster.enabled:
        return _on_redis(services)
    pools = settings.scheduler.pools
    random = services.randomness.stream("ledger")
    return Backends(
        MemoryLedger(
            rules.ledger_terms(settings),
            services.instance_id,
            services.clock,
            random,
            cell_size=pools.cell_size,
            max_cells=pools.max_cells,
        ),
    )


def _on_redis(services: Services) -> Backends:
    require_extra("cluster", "cluster.enabled")
    settings = services.settings
    pools, cluster = settings.scheduler.pools, settings.cluster
    answered = services.metrics.redis_op.observe
    kept_seconds = 2 * settings.scheduler.node_health.forget_offline_seconds
    # Named only here: a server without the cluster extra installed never asks for them.
    ledger = shared.RedisSharedLedger(
        cluster.redis_url,
        services.randomness.stream("ledger"),
        keep_delivered=settings.limits.session_queue,
        session_ms=rules.session_record_ms(settings),
        cluster=cluster.redis_cluster,
        key_prefix=cluster.key_prefix,
        timeout_ms=cluster.redis_timeout_ms,
        cell_size=pools.cell_size,
        max_cells=pools.max_cells,
        cell_ttl_ms=int(kept_seconds * 1000),
        on_answer=answered,
    )
    services.readiness.add("Redis", ledger.cells)
    peers = clusters.RedisPeers(
        cluster.redis_url,
        services.instance_id,
        services.randomness.stream("cluster"),
        cluster_terms(settings),
        cluster=cluster.redis_cluster,
        key_prefix=cluster.key_prefix,
        timeout_ms=cluster.redis_timeout_ms,
        on_answer=answered,
    )
    return Backends(ledger, peers)
