"""What the process reports: events, metrics, spans, and warnings of slowness."""

from dragoman.observability.alerts import ELSEWHERE, WATCHED, AlertJudge, AlertState
from dragoman.observability.event_loop import LoopLag, yielding
from dragoman.observability.events import Log, LogFormat, configure_logging, get_logger
from dragoman.observability.labels import OTHER, Labelled, normal_name, normal_reason
from dragoman.observability.metrics import EXPOSITION_CONTENT_TYPE, Metrics
from dragoman.observability.redaction import REDACTED, RedactionFilter, redact_fields, redact_text
from dragoman.observability.top import KeyCount, TopK
from dragoman.observability.tracing import (
    Trace,
    Tracing,
    open_tracing,
    read_traceparent,
)
from dragoman.observability.watch import LimitWatch, WatchedLock

__all__ = [
    "ELSEWHERE",
    "EXPOSITION_CONTENT_TYPE",
    "OTHER",
    "REDACTED",
    "WATCHED",
    "AlertJudge",
    "AlertState",
    "KeyCount",
    "Labelled",
    "LimitWatch",
    "Log",
    "LogFormat",
    "LoopLag",
    "Metrics",
    "RedactionFilter",
    "TopK",
    "Trace",
    "Tracing",
    "WatchedLock",
    "configure_logging",
    "get_logger",
    "normal_name",
    "normal_reason",
    "open_tracing",
    "read_traceparent",
    "redact_fields",
    "redact_text",
    "yielding",
]
