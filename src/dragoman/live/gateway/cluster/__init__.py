"""What the live plane of one instance does as one of several: notes, news, far nodes, clean-up."""

from dragoman.live.gateway.cluster.fenced_handler import FencedHandler
from dragoman.live.gateway.cluster.neighbours import Neighbours
from dragoman.live.gateway.cluster.note_handler import SessionNotes
from dragoman.live.gateway.cluster.outbox import Outbox
from dragoman.live.gateway.cluster.roster import Roster
from dragoman.live.gateway.cluster.session_post import SessionInbox, SessionPost
from dragoman.live.gateway.cluster.stats_exchange import OtherStats
from dragoman.live.gateway.cluster.tenant_leases import TenantLeases
from dragoman.live.gateway.cluster.terms import cluster_terms

__all__ = [
    "FencedHandler",
    "Neighbours",
    "OtherStats",
    "Outbox",
    "Roster",
    "SessionInbox",
    "SessionNotes",
    "SessionPost",
    "TenantLeases",
    "cluster_terms",
]
