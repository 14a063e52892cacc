"""From a job to a node and back: the one entry, selection, waiting, failover."""

from dragoman.live.dispatch.allocation import DEFAULT_TENANT, Selection
from dragoman.live.dispatch.dispatcher import CANCELLED, Dispatcher, Limits, Submitted
from dragoman.live.dispatch.node_events import NodeEvents
from dragoman.live.dispatch.orders import AUTO_TARGET, JobOrder, Progress, utterance_request_id
from dragoman.live.dispatch.ports import NodePort
from dragoman.live.dispatch.refusal import as_error
from dragoman.live.dispatch.routes import Route, Routes
from dragoman.live.dispatch.tally import Tally

__all__ = [
    "AUTO_TARGET",
    "CANCELLED",
    "DEFAULT_TENANT",
    "Dispatcher",
    "JobOrder",
    "Limits",
    "NodeEvents",
    "NodePort",
    "Progress",
    "Route",
    "Routes",
    "Selection",
    "Submitted",
    "Tally",
    "as_error",
    "utterance_request_id",
]
