"""Where the time of an utterance goes, as OpenTelemetry spans.

While tracing is off there is no `Tracing`: callers find None and make no spans.
Spans name things and tell times; what people say is never in them.
"""

from __future__ import annotations

import asyncio
import re
from hashlib import blake2b
from typing import Protocol

from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from dragoman.clock import Clock
from dragoman.extras import require_extra
from dragoman.observability.events import get_logger

_log = get_logger(__name__)

_FLUSH_SECONDS = 5.0
"""How long the last spans of a stopping server may take to leave."""

_CLOCK_SET_NS = 1_000_000_000
_TRACE_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")
_propagator = TraceContextTextMapPropagator()


def read_traceparent(header: str | None) -> SpanContext | None:
    """The span a caller works under, from a W3C ``traceparent`` header; None: none, or broken."""
    if header is None:
        return None
    found = trace.get_current_span(_propagator.extract({"traceparent": header}))
    context = found.get_span_context()
    return context if context.is_valid else None


def trace_number(trace_id: str) -> int:
    """The trace that an id stands for: 32 hex digits as they are, any other label by its hash."""
    if _TRACE_ID.fullmatch(trace_id):
        return int(trace_id, 16)
    return int.from_bytes(blake2b(trace_id.encode(), digest_size=16).digest())


class Exit(Protocol):
    """Where spans are made and leave the process."""

    @property
    def tracer(self) -> Tracer: ...

    def use_trace(self, number: int) -> None:
        """The next span without a parent begins this trace."""

    def close(self) -> None:
        """Send what is left; may take a while, so never called on an event loop."""


class Tracing:
    """Begins spans, with the times of the process's clock."""

    def __init__(self, way_out: Exit, clock: Clock) -> None:
        self._exit = way_out
        self._tracer = way_out.tracer
        self._clock = clock
        self._offset_ns = self._offset()

    def begin(
        self,
        name: str,
        trace_id: str,
        *,
        parent: SpanContext | None = None,
        began: float | None = None,
        attributes: dict[str, str | int] | None = None,
    ) -> Trace:
        """A span of a trace: its first one, or one under a parent of the same trace.

        began is a monotonic time, for a span that started before this call.
        """
        if parent is None:
            self._look_at_the_clock()
            self._exit.use_trace(trace_number(trace_id))
            context = trace.set_span_in_context(trace.INVALID_SPAN)
        else:
            context = trace.set_span_in_context(NonRecordingSpan(parent))
        span = self._tracer.start_span(
            name, context, attributes=attributes, start_time=self.at_ns(began)
        )
        return Trace(span, self)

    def at_ns(self, at: float | None = None) -> int:
        """A monotonic time, by default now, in nanoseconds since 1970."""
        moment = self._clock.monotonic() if at is None else at
        return self._offset_ns + int(moment * 1e9)

    async def close(self) -> None:
        """Send the last spans, if there is an exporter."""
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                await asyncio.to_thread(self._exit.close)
        except TimeoutError:
            _log.warning("spans_left", after_seconds=_FLUSH_SECONDS)

    def _offset(self) -> int:
        return self._clock.now_ms() * 1_000_000 - int(self._clock.monotonic() * 1e9)

    def _look_at_the_clock(self) -> None:
        """Follow a step of the wall clock, but not its jitter, so that spans keep their order."""
        offset_ns = self._offset()
        if abs(offset_ns - self._offset_ns) > _CLOCK_SET_NS:
            self._offset_ns = offset_ns


class Trace:
    """One span that goes on."""

    __slots__ = ("_span", "_tracing")

    def __init__(self, span: Span, tracing: Tracing) -> None:
        self._span = span
        self._tracing = tracing

    @property
    def context(self) -> SpanContext:
        """What spans under this one need to know of it."""
        return self._span.get_span_context()

    @property
    def traceparent(self) -> str:
        """The same for others, over a wire: the value of a W3C ``traceparent`` header."""
        context = self.context
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def event(self, name: str, *, at: float | None = None, **attributes: str | int) -> None:
        """Something happened: now, or at a monotonic time."""
        self._span.add_event(name, attributes, self._tracing.at_ns(at))

    def end(self, error_code: str | None = None) -> None:
        """It is over, well or with an error."""
        if error_code is not None:
            self._span.set_attribute("error.type", error_code)
            self._span.set_status(Status(StatusCode.ERROR, error_code))
        self._span.end(self._tracing.at_ns())


def open_tracing(endpoint: str, instance_id: str, clock: Clock) -> Tracing:
    """Spans that leave by OTLP over HTTP; an empty endpoint: what the environment says."""
    require_extra("tracing", "tracing.enabled")
    from dragoman.observability.otlp import OtlpExit  # an extra

    return Tracing(OtlpExit.to(endpoint, instance_id), clock)
