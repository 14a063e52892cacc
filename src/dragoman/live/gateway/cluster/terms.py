"""From the settings to the terms of a cluster."""

from __future__ import annotations

from dragoman.live.cluster import ClusterTerms
from dragoman.settings import Settings


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
