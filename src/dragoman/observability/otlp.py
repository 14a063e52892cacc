"""Spans leave the process by OTLP over HTTP; needs the extra ``dragoman[tracing]``."""

from __future__ import annotations

from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Tracer

from dragoman.version import __version__

_SPANS_PATH = "/v1/traces"


class OtlpExit:
    """Makes spans and hands them to a processor, which sends them from a thread of its own."""

    def __init__(self, processor: SpanProcessor, instance_id: str) -> None:
        self._ids = _ChosenTraceIds()
        self._provider = TracerProvider(
            resource=Resource.create(
                {
                    "service.name": "dragoman",
                    "service.version": __version__,
                    "service.instance.id": instance_id,
                }
            ),
            id_generator=self._ids,
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(processor)
        self.tracer: Tracer = self._provider.get_tracer("dragoman", __version__)

    @classmethod
    def to(cls, endpoint: str, instance_id: str) -> OtlpExit:
        """The exit to a collector."""
        exporter = OTLPSpanExporter(endpoint=spans_url(endpoint) or None)
        return cls(BatchSpanProcessor(exporter), instance_id)

    def use_trace(self, number: int) -> None:
        self._ids.chosen = number

    def close(self) -> None:
        self._provider.shutdown()


class _ChosenTraceIds(RandomIdGenerator):
    """A trace has the id that clients and nodes know it by."""

    chosen = 0

    def generate_trace_id(self) -> int:
        return self.chosen or super().generate_trace_id()

    def is_trace_id_random(self) -> bool:
        return False


def spans_url(endpoint: str) -> str:
    """Where a collector takes spans: its address as given, or the usual path on a bare host."""
    if endpoint and urlsplit(endpoint).path in ("", "/"):
        return endpoint.rstrip("/") + _SPANS_PATH
    return endpoint
