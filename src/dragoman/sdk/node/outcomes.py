"""From what a function returned or raised to the message that ends its attempt."""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.errors import DragomanError, JobCancelled, NodeOverloaded, NodeUnavailable
from dragoman.live.protocol import (
    ErrorInfo,
    JobResult,
    Message,
    ModelNotAvailable,
    RunningJob,
    Timings,
)
from dragoman.sdk.node.job import Answer, JobFailed, ModelMissing

_MAX_WORDS_OF_AN_ERROR = 500  # characters

OVERLOADED = ErrorInfo(NodeOverloaded.code, "All slots of the node are taken.")
LEAVING = ErrorInfo(NodeUnavailable.code, "The node is leaving.")


def cancelled(reason: str) -> ErrorInfo:
    """The error of a job that is no longer wanted."""
    return ErrorInfo(JobCancelled.code, f"The job was cancelled: {reason or 'no reason given'}.")


def failure(listed: RunningJob, error: ErrorInfo) -> JobResult:
    """The end of an attempt that failed."""
    return JobResult(job_id=listed.job_id, attempt_id=listed.attempt_id, success=False, error=error)


def success(listed: RunningJob, answer: object, total_ms: float) -> JobResult:
    """The end of an attempt that went well, if the answer is one that can be sent."""
    if not isinstance(answer, Answer):
        return failure(
            listed,
            _own_fault(f"The node's function returned {_named(answer)}; it must return an Answer."),
        )
    fields: dict[str, Any] = msgspec.structs.asdict(answer)
    fields["timings"] = _with_total(answer.timings, total_ms)
    fields.update(job_id=listed.job_id, attempt_id=listed.attempt_id, success=True)
    try:
        return msgspec.convert(fields, JobResult)
    except msgspec.ValidationError as error:
        return failure(listed, _own_fault(f"The node's Answer cannot be sent: {error}."))


def raised(listed: RunningJob, error: BaseException) -> JobResult | ModelNotAvailable:
    """The end of an attempt whose function raised something."""
    if isinstance(error, ModelMissing):
        message = ModelNotAvailable(
            service_id=error.service_id,
            reason=error.reason,
            version=error.version,
            job_id=listed.job_id,
            attempt_id=listed.attempt_id,
        )
        return message if _is_valid(message) else failure(listed, _own_fault(error.message))
    if isinstance(error, JobFailed):
        result = failure(listed, error.error)
        return result if _is_valid(result) else failure(listed, _own_fault(error.message))
    if isinstance(error, DragomanError):
        return failure(listed, ErrorInfo(error.code, error.message))
    return failure(listed, _own_fault(f"The node's function failed: {_named(error)}: {error}"))


def unsendable(listed: RunningJob, error: DragomanError) -> JobResult:
    """What is sent instead of an outcome that cannot be written."""
    # The words of the error are its own, and not those that could not be written.
    return failure(listed, _own_fault(error.message))


def _own_fault(message: str) -> ErrorInfo:
    # Exceptions quote anything, also text that cannot be sent.
    readable = message[:_MAX_WORDS_OF_AN_ERROR].encode(errors="replace").decode()
    return ErrorInfo(DragomanError.code, readable)


def _named(thing: object) -> str:
    return type(thing).__name__


def _with_total(timings: Timings | None, total_ms: float) -> Timings:
    if timings is None:
        return Timings(total_ms=total_ms)
    if timings.total_ms is None:
        return msgspec.structs.replace(timings, total_ms=total_ms)
    return timings


def _is_valid(message: Message) -> bool:
    try:
        msgspec.convert(msgspec.to_builtins(message), type(message))
    except (msgspec.ValidationError, TypeError):
        return False
    return True
