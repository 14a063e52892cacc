"""What a job is asked for with, and what dispatch counts and needs of its neighbours."""

from dragoman.live.dispatch.assignment import assignment_of
from dragoman.live.dispatch.background import Background
from dragoman.live.dispatch.leftovers import why_dropped
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
from dragoman.live.dispatch.ports import NodePort, TenantCounts
from dragoman.live.dispatch.routes import Route, Routes, drawn_order, hashed_shard
from dragoman.live.dispatch.tally import Tally
from dragoman.live.dispatch.tenants import TenantJobs
from dragoman.live.dispatch.waiting import WaitingRoom

__all__ = [
    "AUTO_TARGET",
    "Background",
    "JobOrder",
    "NodePort",
    "OnEnd",
    "OnPartial",
    "OnProgress",
    "Progress",
    "Route",
    "Routes",
    "Tally",
    "TenantCounts",
    "TenantJobs",
    "WaitingRoom",
    "assignment_of",
    "body_hash",
    "demand_hash",
    "drawn_order",
    "hashed_shard",
    "named_hash",
    "pairs_of",
    "utterance_request_id",
    "why_dropped",
]
