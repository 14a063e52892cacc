"""Which ledger a server keeps its slots and jobs in."""

from __future__ import annotations

from dragoman.api.services import Services
from dragoman.live import ledger as ledgers


def open_ledger(services: Services) -> ledgers.Ledger:
    """The ledger that the settings ask for; a server that is not ready without it says so."""
    settings = services.settings
    pools, cluster = settings.scheduler.pools, settings.cluster
    random = services.randomness.stream("ledger")
    if not cluster.enabled:
        return ledgers.MemoryLedger(
            services.clock, random, cell_size=pools.cell_size, max_cells=pools.max_cells
        )
    kept_seconds = 2 * settings.scheduler.node_health.forget_offline_seconds
    # Named only here: a server without the cluster extra installed never asks for it.
    ledger: ledgers.Ledger = ledgers.RedisLedger(
        cluster.redis_url,
        random,
        cluster=cluster.redis_cluster,
        key_prefix=cluster.key_prefix,
        timeout_ms=cluster.redis_timeout_ms,
        cell_size=pools.cell_size,
        max_cells=pools.max_cells,
        cell_ttl_ms=int(kept_seconds * 1000),
        on_answer=lambda name, seconds: services.metrics.redis_op.labels(name).observe(seconds),
    )
    services.readiness.add("Redis", ledger.cells)
    return ledger
