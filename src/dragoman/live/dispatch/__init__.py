"""One job, one synchronous walk from its submission to its end."""

from dragoman.live.dispatch.canary import CanaryRoute
from dragoman.live.dispatch.cells import SlotRules
from dragoman.live.dispatch.cluster.asks import SharedTerms
from dragoman.live.dispatch.cluster.ledger import ClusterLedger
from dragoman.live.dispatch.cluster.peers import PeerMessages
from dragoman.live.dispatch.cluster.ports import Share
from dragoman.live.dispatch.dispatcher import JobDispatcher
from dragoman.live.dispatch.driver import CANCELLED, FORGOTTEN, DriverTerms
from dragoman.live.dispatch.history import MINUTES, JobHistory, MinuteSeries
from dragoman.live.dispatch.job import (
    ACCEPTED,
    AUTO_TARGET,
    NOT_CUT,
    RUNNING,
    SUCCESS,
    Job,
    JobOrder,
    OnPartial,
    OnProgress,
    Progress,
    Step,
    Stop,
    body_hash,
    demand_hash,
    named_hash,
    utterance_request_id,
    weight_of,
)
from dragoman.live.dispatch.memory_ledger import LedgerTerms, MemoryLedger
from dragoman.live.dispatch.node_messages import NodeMessages
from dragoman.live.dispatch.ports import AfterClaim, Claimed, TenantCounts
from dragoman.live.dispatch.refusals import as_error
from dragoman.live.dispatch.routes import Route, Routes
from dragoman.live.dispatch.selection import SelectionRules
from dragoman.live.dispatch.telemetry import Tally

__all__ = [
    "ACCEPTED",
    "AUTO_TARGET",
    "CANCELLED",
    "FORGOTTEN",
    "MINUTES",
    "NOT_CUT",
    "RUNNING",
    "SUCCESS",
    "AfterClaim",
    "CanaryRoute",
    "Claimed",
    "ClusterLedger",
    "DriverTerms",
    "Job",
    "JobDispatcher",
    "JobHistory",
    "JobOrder",
    "LedgerTerms",
    "MemoryLedger",
    "MinuteSeries",
    "NodeMessages",
    "OnPartial",
    "OnProgress",
    "PeerMessages",
    "Progress",
    "Route",
    "Routes",
    "SelectionRules",
    "Share",
    "SharedTerms",
    "SlotRules",
    "Step",
    "Stop",
    "Tally",
    "TenantCounts",
    "as_error",
    "body_hash",
    "demand_hash",
    "named_hash",
    "utterance_request_id",
    "weight_of",
]
