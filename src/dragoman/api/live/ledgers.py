"""Where a server keeps its slots, jobs and sessions: in memory, or on Redis with others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

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


_SHOWN_SECONDS = 60.0
"""How long after its last refusal Redis is called full."""


class FullRedis:
    """Counts what Redis refuses because its memory is full, and says for a while that it does.

    A full Redis still answers: results are delivered and slots come back. So an instance stays
    ready, and only warns: all instances share the one Redis, and a load balancer that took them
    all away would end the work that goes on.
    """

    def __init__(self, count: Callable[[], None], now: Callable[[], float]) -> None:
        self._count = count
        self._now = now
        self._last = -inf

    def refused(self) -> None:
        """Redis refused an operation."""
        self._count()
        self._last = self._now()

    def warning(self) -> str | None:
        """What `/readyz` says; None when nothing was refused lately."""
        if self._now() - self._last > _SHOWN_SECONDS:
            return None
        return "Redis has no memory left and refuses new work"


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
    full = FullRedis(services.metrics.redis_full.inc, services.clock.monotonic)
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
        on_full=full.refused,
    )
    services.readiness.add("Redis", ledger.cells)
    services.readiness.add_warning(full.warning)
    peers = clusters.RedisPeers(
        cluster.redis_url,
        services.instance_id,
        services.randomness.stream("cluster"),
        cluster_terms(settings),
        cluster=cluster.redis_cluster,
        key_prefix=cluster.key_prefix,
        timeout_ms=cluster.redis_timeout_ms,
        on_answer=answered,
        on_full=full.refused,
    )
    return Backends(ledger, peers)
