"""From a job to a node and back: the one entry, selection, waiting, failover."""

from dragoman.live.dispatch.allocation import DEFAULT_TENANT, Selection
from dragoman.live.dispatch.cancelling import CANCELLED
from dragoman.live.dispatch.dispatcher import Dispatcher, Limits, Submitted
from dragoman.live.dispatch.forgotten import FORGOTTEN
from dragoman.live.dispatch.hosting import Hosting
from dragoman.live.dispatch.lookout import Lookout
from dragoman.live.dispatch.node_events import NodeEvents
from dragoman.live.dispatch.orders import AUTO_TARGET, JobOrder, Progress, utterance_request_id
from dragoman.live.dispatch.peer_events import PeerEvents
from dragoman.live.dispatch.ports import NodePort, PeerPort, TenantCounts
from dragoman.live.dispatch.refusal import as_error
from dragoman.live.dispatch.routes import Route, Routes
from dragoman.live.dispatch.tally import Tally
from dragoman.live.dispatch.upkeep import Share

__all__ = [
    "AUTO_TARGET",
    "CANCELLED",
    "DEFAULT_TENANT",
    "FORGOTTEN",
    "Dispatcher",
    "Hosting",
    "JobOrder",
    "Limits",
    "Lookout",
    "NodeEvents",
    "NodePort",
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
    "as_error",
    "utterance_request_id",
]
