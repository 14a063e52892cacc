"""From what a function returned or raised to the message that ends its attempt."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

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
)
from dragoman.sdk.node.job import Answer, JobFailed, ModelMissing, WrongAnswer
from dragoman.sdk.parameters import plain, shortened

_MAX_WORDS_OF_AN_ERROR = 500  # characters
_EXTRA_HOLDS = "it holds what JSON can, a few levels deep"

_AS_THEY_ARE = (bytes, bytearray, memoryview, datetime, date, time, timedelta, UUID, Decimal)
"""Values that are not written as text here: bytes are sent as such, and the others are refused."""

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
    fields.update(job_id=job_id, attempt_id=attempt_id, success=True)
    try:
        # As they are written to the wire: what a struct inside holds was never checked.
        written = msgspec.to_builtins(fields, builtin_types=_AS_THEY_ARE, enc_hook=plain)
        timings = written["timings"]
        if timings is None:
            written["timings"] = {"total_ms": total_ms}
        elif isinstance(timings, dict) and timings.get("total_ms") is None:
            timings["total_ms"] = total_ms
        # Only bytes are bytes: a text is not taken as base64, as it would be in JSON.
        return msgspec.convert(written, JobResult, builtin_types=_AS_THEY_ARE)
    except Exception as error:  # the values are the node owner's, and may raise anything
        field, what = _fault(error, fields)
        raise WrongAnswer(
            f"The Answer cannot be sent: `{field}`: {what}, in {shortened(answer)}.",
            fault=f"a wrong `{field}` in an Answer",
        ) from None


def _fault(error: Exception, fields: Mapping[str, Any]) -> tuple[str, str]:
    """Which field of an Answer is wrong, and what about it."""
    if isinstance(error, msgspec.ValidationError):
        return _told(error)
    for field, value in fields.items():
        try:
            msgspec.to_builtins(value, builtin_types=_AS_THEY_ARE, enc_hook=plain)
        except Exception as found:
            is_plain = isinstance(found, TypeError)
            what = _words_of(found) if is_plain else f"{type(found).__name__}: {_words_of(found)}"
            return field, f"{what}; {_EXTRA_HOLDS}" if field == "extra" else what
    return "extra", f"{type(error).__name__}: {_words_of(error)}"


def _told(error: msgspec.ValidationError) -> tuple[str, str]:
    """Where a value does not fit, and why."""
    # msgspec ends with where it was: "- at `$.text_translated`", "- at `key` in `$.extra`".
    what, _, where = str(error).partition(" - at `")
    field = where.rpartition("$.")[2].rstrip("`")
    if field.startswith("extra"):
        # The levels below, as in "[...][...]", tell nothing.
        return "extra", f"{what}; {_EXTRA_HOLDS}"
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


def unreadable(listed: RunningJob, error: Exception) -> JobResult:
    """The end of an attempt whose outcome could not even be looked at."""
    says = f"What the node's function left cannot be read: {type(error).__name__}"
    return failure(listed, _own_fault(f"{says}: {_words_of(error)}"))


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


def _is_valid(message: Message) -> bool:
    try:
        msgspec.convert(msgspec.to_builtins(message), type(message))
    except Exception:  # what a function put into its failure may raise anything
        return False
    return True
