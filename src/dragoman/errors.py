"""Every way Dragoman can say no: one tree, one class a cause.

Each class carries the code that goes over the wire and the HTTP status that goes with it; each
message says what happened, to which thing, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar


class DragomanError(Exception):
    """Raised when Dragoman cannot do what was asked; the base of all errors below."""

    code: ClassVar[str] = "INTERNAL_ERROR"
    status: ClassVar[int] = 500

    def __init__(
        self,
        message: str = "",
        *,
        details: dict[str, Any] | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message or (type(self).__doc__ or self.code).splitlines()[0])
        self.details = details or {}
        self.retry_after_ms = retry_after_ms

    @property
    def message(self) -> str:
        return str(self.args[0])


# --- this program ---------------------------------------------------------------------------


class InternalError(DragomanError):
    """Raised when something failed that is Dragoman's own fault."""


class SettingsError(DragomanError):
    """Raised when a settings file, an environment variable or a flag cannot be used."""

    code = "INVALID_SETTINGS"
    status = 422


class ExtraMissing(SettingsError):
    """Raised when the settings ask for an optional part of Dragoman that is not installed."""

    code = "EXTRA_MISSING"


class AudioUnreadable(DragomanError):
    """Raised when a recording is not what it says it is, or cannot be decoded."""

    code = "AUDIO_UNREADABLE"
    status = 422


class CannotStart(DragomanError):
    """Raised when a server cannot use the address, the folder or the Redis that it was given."""

    code = "CANNOT_START"
    status = 503


class StoreError(DragomanError):
    """Raised when the database refused an operation or cannot be reached."""

    code = "STORE_ERROR"
    status = 503

    is_passing = False
    """Whether the database was only away, or busy: the same operation may go well later."""


class SchemaTooNew(StoreError):
    """Raised when the database was written by a newer Dragoman than this one."""

    code = "SCHEMA_TOO_NEW"


# --- live plane: what a caller did ------------------------------------------------------------


class InvalidMessage(DragomanError):
    """Raised when a message or a request body does not have the form the protocol asks for."""

    code = "INVALID_MESSAGE"
    status = 422


class InvalidCapabilitySchema(InvalidMessage):
    """Raised when a node registers with capabilities that do not fit the schema."""

    code = "INVALID_CAPABILITY_SCHEMA"
    status = 422


class InvalidSession(DragomanError):
    """Raised when a session is not known, or no longer."""

    code = "INVALID_SESSION"
    status = 404


class SessionElsewhere(DragomanError):
    """Raised when another instance of the cluster has the session that a listener asks for."""

    code = "SESSION_ELSEWHERE"
    status = 421


class SessionClosed(DragomanError):
    """Raised when a session was closed before the operation reached it."""

    code = "SESSION_CLOSED"
    status = 409


class NodeIdConflict(DragomanError):
    """Raised when a node_id already belongs to another key or registration token."""

    code = "NODE_ID_CONFLICT"
    status = 409


class RequestConflict(DragomanError):
    """Raised when a request_id comes again with another body."""

    code = "REQUEST_CONFLICT"
    status = 409


class JobEnded(DragomanError):
    """Raised when a job that has ended is cancelled."""

    code = "JOB_ENDED"
    status = 409


class Unauthorized(DragomanError):
    """Raised when a key is missing, wrong or revoked."""

    code = "UNAUTHORIZED"
    status = 401


class Forbidden(DragomanError):
    """Raised when a key is good but its role or tenant does not allow the operation."""

    code = "FORBIDDEN"
    status = 403


class NotFound(DragomanError):
    """Raised when the named thing does not exist, or belongs to another tenant."""

    code = "NOT_FOUND"
    status = 404


class RateLimited(DragomanError):
    """Raised when a limit on messages, work in flight or failed attempts is passed."""

    code = "RATE_LIMITED"
    status = 429


class PayloadTooLarge(DragomanError):
    """Raised when a frame, a body or an upload is over its limit."""

    code = "PAYLOAD_TOO_LARGE"
    status = 413


# --- live plane: what the fleet could not do ----------------------------------------------------


class FleetFull(DragomanError):
    """Raised when every cell is full and a new node cannot be placed."""

    code = "FLEET_FULL"
    status = 503


class PairUnsupported(DragomanError):
    """Raised when no known node is in the language pair's pool."""

    code = "PAIR_UNSUPPORTED"
    status = 409


class UnsupportedFeature(DragomanError):
    """Raised when no node of the pool offers a feature that was asked for."""

    code = "UNSUPPORTED_FEATURE"
    status = 409


class NoCapacity(DragomanError):
    """Raised when nodes could carry the job but none has a free slot."""

    code = "NO_CAPACITY"
    status = 429


class ModelNotAvailable(DragomanError):
    """Raised when the only thing missing is a service that is marked unavailable."""

    code = "MODEL_NOT_AVAILABLE"
    status = 503


class NoAvailableNode(DragomanError):
    """Raised when nodes are known for the pair but none of them can take the job now."""

    code = "NO_AVAILABLE_NODE"
    status = 503


class NodeUnavailable(DragomanError):
    """Raised when the node that carried an attempt is gone."""

    code = "NODE_UNAVAILABLE"
    status = 503


class NodeOverloaded(DragomanError):
    """Raised when a node says that it has no slot for an attempt."""

    code = "NODE_OVERLOADED"
    status = 503


class JobTimeout(DragomanError):
    """Raised when a job or an attempt took longer than it may."""

    code = "JOB_TIMEOUT"
    status = 504


class JobCancelled(DragomanError):
    """Raised when a job was cancelled before it was done."""

    code = "JOB_CANCELLED"
    status = 409


class Preempted(DragomanError):
    """Raised when a batch attempt gave its slot to live work."""

    code = "PREEMPTED"
    status = 503


class AttemptsExhausted(DragomanError):
    """Raised when every attempt of a job failed; details.last is the last attempt's code."""

    code = "ATTEMPTS_EXHAUSTED"
    status = 503


class DependencyDown(DragomanError):
    """Raised when Redis or the database does not answer in time."""

    code = "SCHEDULER_DEPENDENCY_DOWN"
    status = 503


class ServerDraining(DragomanError):
    """Raised when the server is shutting down and takes no new work."""

    code = "SERVER_DRAINING"
    status = 503


class StatsNotReady(DragomanError):
    """Raised when no stats snapshot has been made yet."""

    code = "stats_not_ready"
    status = 503


# --- lab plane ----------------------------------------------------------------------------------


class ExperimentRunning(DragomanError):
    """Raised when an experiment that is running is started, changed or deleted."""

    code = "EXPERIMENT_RUNNING"
    status = 409


class ExperimentNotRunning(DragomanError):
    """Raised when an experiment that is not running is killed or joined."""

    code = "EXPERIMENT_NOT_RUNNING"
    status = 409


class NameTaken(DragomanError):
    """Raised when a name is already used by another thing of the tenant."""

    code = "NAME_TAKEN"
    status = 409


class DatasetInUse(DragomanError):
    """Raised when a dataset is deleted that an experiment uses."""

    code = "DATASET_IN_USE"
    status = 409


class DeniedWord(DragomanError):
    """Raised when a name or a description holds a word that the settings deny."""

    code = "DENIED_WORD"
    status = 422


class DatasetEmpty(DragomanError):
    """Raised when a run is started over a dataset version without items."""

    code = "DATASET_EMPTY"
    status = 422


class DatasetInvalid(DragomanError):
    """Raised when a dataset file cannot be read; details name the line."""

    code = "DATASET_INVALID"
    status = 422


class SchemaMismatch(DragomanError):
    """Raised when a mapping names a column that the dataset's schema does not have."""

    code = "SCHEMA_MISMATCH"
    status = 422


class InvalidFilter(DragomanError):
    """Raised when a results filter is malformed or names an unknown field."""

    code = "INVALID_FILTER"
    status = 422


class QuotaExceeded(DragomanError):
    """Raised when a tenant has as many running experiments as it may."""

    code = "QUOTA_EXCEEDED"
    status = 429


class BudgetExceeded(DragomanError):
    """Raised when a budget of tokens or cost is not enough, or is used up."""

    code = "BUDGET_EXCEEDED"
    status = 402


class TargetError(DragomanError):
    """Raised when a target failed on a turn."""

    code = "TARGET_ERROR"
    status = 502


class EvaluatorError(DragomanError):
    """Raised when an evaluator failed on an output."""

    code = "EVALUATOR_ERROR"
    status = 502


class ItemTimeout(DragomanError):
    """Raised when an item took longer than its time limit."""

    code = "ITEM_TIMEOUT"
    status = 504


class WorkerLost(DragomanError):
    """Raised when the worker that held an item stopped renewing its lease."""

    code = "WORKER_LOST"
    status = 503


class Cancelled(DragomanError):
    """Raised when an item was stopped because its run was killed."""

    code = "CANCELLED"
    status = 409


def all_errors() -> Iterator[type[DragomanError]]:
    """Every class of the tree, the base included, each once."""
    pending: list[type[DragomanError]] = [DragomanError]
    while pending:
        error = pending.pop()
        yield error
        pending.extend(error.__subclasses__())


BY_CODE: dict[str, type[DragomanError]] = {
    error.code: error for error in all_errors() if error is not DragomanError
}
"""The class for a code that arrived over the wire."""


def status_of(code: str) -> int:
    """The HTTP status that goes with a code; 500 for an unknown code."""
    error = BY_CODE.get(code)
    return error.status if error else 500
