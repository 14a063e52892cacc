"""From what a function returned or raised to the message that ends its attempt."""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.errors import (
    DragomanError,
    JobCancelled,
    NodeOverloaded,
    NodeUnavailable,
    PayloadTooLarge,
)
from dragoman.ids import AttemptId, JobId
from dragoman.live.protocol import (
    ErrorInfo,
    JobResult,
    Message,
    ModelNotAvailable,
    RunningJob,
    Timings,
)
from dragoman.sdk.node.job import Answer, JobFailed, ModelMissing, WrongAnswer, shortened

_MAX_WORDS_OF_AN_ERROR = 500  # characters

OVERLOADED = ErrorInfo(NodeOverloaded.code, "All slots of the node are taken.")
LEAVING = ErrorInfo(NodeUnavailable.code, "The node is leaving.")


def cancelled(reason: str) -> ErrorInfo:
    """The error of a job that is no longer wanted."""
    return ErrorInfo(JobCancelled.code, f"The job was cancelled: {reason or 'no reason given'}.")


def failure(listed: RunningJob, error: ErrorInfo) -> JobResult:
    """The end of an attempt that failed."""
    return JobResult(job_id=listed.job_id, attempt_id=listed.attempt_id, success=False, error=error)


def success(job_id: JobId, attempt_id: AttemptId, answer: Answer, total_ms: float) -> JobResult:
    """The end of an attempt that went well; WrongAnswer when its fields cannot be sent."""
    fields: dict[str, Any] = msgspec.structs.asdict(answer)
    timings = answer.timings
    fields["timings"] = (
        Timings(total_ms=total_ms) if timings is None else _with_total(timings, total_ms)
    )
    fields.update(job_id=job_id, attempt_id=attempt_id, success=True)
    try:
        return msgspec.convert(fields, JobResult)
    except msgspec.ValidationError as error:
        field, what = _fault(error)
        raise WrongAnswer(
            f"The Answer cannot be sent: `{field}`: {what}, in {shortened(answer)}.",
            fault=f"a wrong `{field}` in an Answer",
        ) from None


def _fault(error: msgspec.ValidationError) -> tuple[str, str]:
    """Which field of an Answer is wrong, and what about it."""
    # msgspec ends with where it was: "- at `$.text_translated`", "- at `key` in `$.extra`".
    what, _, where = str(error).partition(" - at `")
    field = where.rpartition("$.")[2].rstrip("`")
    if field.startswith("extra"):
        # The levels below, as in "[...][...]", tell nothing.
        return "extra", f"{what}; it holds what JSON can, a few levels deep"
    if "matching regex" in what and "lang" in field:
        return field, "Expected a language tag, such as en or zh-TW"
    return field, what


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
        return failure(listed, ErrorInfo(error.code, _readable(error.message)))
    says = f"The node's function failed: {type(error).__name__}: {_words_of(error)}"
    return failure(listed, _own_fault(says))


def unsendable(listed: RunningJob, error: DragomanError) -> JobResult:
    """What is sent instead of an outcome that cannot be written."""
    # The words of the error are its own, and not those that could not be written.
    if isinstance(error, PayloadTooLarge):
        # Another node would make the same result, and could not send it either.
        return failure(listed, ErrorInfo(error.code, error.message, retryable=False))
    return failure(listed, _own_fault(error.message))


def _words_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # the class of the exception is the node owner's, and may be at fault
        return "(it cannot be shown)"


def _own_fault(message: str) -> ErrorInfo:
    return ErrorInfo(DragomanError.code, _readable(message))


def _readable(message: str) -> str:
    """The message, cut short; exceptions quote anything, also text that cannot be sent."""
    return message[:_MAX_WORDS_OF_AN_ERROR].encode(errors="replace").decode()


def _with_total(timings: Timings, total_ms: float) -> Timings:
    if timings.total_ms is None:
        return msgspec.structs.replace(timings, total_ms=total_ms)
    return timings


def _is_valid(message: Message) -> bool:
    try:
        msgspec.convert(msgspec.to_builtins(message), type(message))
    except (msgspec.ValidationError, TypeError):
        return False
    return True
