"""The live core: one job, one synchronous walk from its submission to its end."""

from dragoman.live.core.cells import SlotRules
from dragoman.live.core.cluster.ledger import ClusterLedger, SharedTerms
from dragoman.live.core.cluster.peers import PeerMessages
from dragoman.live.core.cluster.ports import Share
from dragoman.live.core.dispatcher import JobDispatcher
from dragoman.live.core.driver import FORGOTTEN, DriverTerms
from dragoman.live.core.job import Step
from dragoman.live.core.memory import LedgerTerms, MemoryLedger
from dragoman.live.core.node_messages import NodeMessages
from dragoman.live.core.refusals import as_error
from dragoman.live.core.selection import SelectionRules
from dragoman.live.core.sessions.session import Session, SessionContext
from dragoman.live.core.sessions.sessions import Sessions

__all__ = [
    "FORGOTTEN",
    "ClusterLedger",
    "DriverTerms",
    "JobDispatcher",
    "LedgerTerms",
    "MemoryLedger",
    "NodeMessages",
    "PeerMessages",
    "SelectionRules",
    "Session",
    "SessionContext",
    "Sessions",
    "Share",
    "SharedTerms",
    "SlotRules",
    "Step",
    "as_error",
]
