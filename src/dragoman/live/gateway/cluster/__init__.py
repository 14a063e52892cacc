"""What the live plane of one instance does as one of several: notes, news, far nodes, clean-up."""

from dragoman.live.gateway.cluster.inbox import SessionInbox, SessionNotes, SessionPost
from dragoman.live.gateway.cluster.member import ClusterMember, cluster_terms
from dragoman.live.gateway.cluster.news import OtherStats
from dragoman.live.gateway.cluster.outbox import Outbox, Roster
from dragoman.live.gateway.cluster.tenant_leases import TenantLeases

__all__ = [
    "ClusterMember",
    "OtherStats",
    "Outbox",
    "Roster",
    "SessionInbox",
    "SessionNotes",
    "SessionPost",
    "TenantLeases",
    "cluster_terms",
]
