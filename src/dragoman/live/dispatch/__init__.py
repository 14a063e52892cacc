"""From a job to a node and back: the one entry, selection, waiting, failover."""

from dragoman.live.dispatch.allocation import DEFAULT_TENANT, Selection
from dragoman.live.dispatch.assignment import assignment_of
from dragoman.live.dispatch.background import Background
from dragoman.live.dispatch.cancelling import CANCELLED
from dragoman.live.dispatch.dispatcher import Dispatcher, Limits, Submitted
from dragoman.live.dispatch.forgotten import FORGOTTEN
from dragoman.live.dispatch.hosting import Hosting
from dragoman.live.dispatch.leftovers import why_dropped
from dragoman.live.dispatch.lookout import Lookout
from dragoman.live.dispatch.node_events import NodeEvents
from dragoman.live.dispatch.orders import (
    AUTO_TARGET,
    JobOrder,
    OnEnd,
    OnPartial,
    OnProgress,
    Progress,
    body_hash,
    demand_hash,
    named_hash,
    pairs_of,
    utterance_request_id,
)
from dragoman.live.dispatch.peer_events import PeerEvents
from dragoman.live.dispatch.ports import NodePort, PeerPort, TenantCounts
from dragoman.live.dispatch.refusal import NEVER_WAITS, as_error, as_info, with_job
from dragoman.live.dispatch.routes import Route, Routes, drawn_order, hashed_shard
from dragoman.live.dispatch.tally import Tally
from dragoman.live.dispatch.tenants import TenantJobs
from dragoman.live.dispatch.upkeep import Share
from dragoman.live.dispatch.waiting import WaitingRoom

__all__ = [
    "AUTO_TARGET",
    "CANCELLED",
    "DEFAULT_TENANT",
    "FORGOTTEN",
    "NEVER_WAITS",
    "Background",
    "Dispatcher",
    "Hosting",
    "JobOrder",
    "Limits",
    "Lookout",
    "NodeEvents",
    "NodePort",
    "OnEnd",
    "OnPartial",
    "OnProgress",
    "PeerEvents",
    "PeerPort",
    "Progress",
    "Route",
    "Routes",
    "Selection",
    "Share",
    "Submitted",
    "Tally",
    "TenantCounts",
    "TenantJobs",
    "WaitingRoom",
    "as_error",
    "as_info",
    "assignment_of",
    "body_hash",
    "demand_hash",
    "drawn_order",
    "hashed_shard",
    "named_hash",
    "pairs_of",
    "utterance_request_id",
    "why_dropped",
    "with_job",
]
