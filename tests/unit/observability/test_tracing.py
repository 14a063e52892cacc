from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from dragoman.clock import ManualClock
from dragoman.errors import ExtraMissing
from dragoman.observability import Tracing, open_tracing, read_traceparent
from dragoman.observability.otlp import OtlpExit, spans_url
from dragoman.observability.tracing import trace_number

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"


class Desk:
    """Tracing that keeps its spans here."""

    def __init__(self) -> None:
        self.clock = ManualClock(start_ms=1_000)
        self._exporter = InMemorySpanExporter()
        self.tracing = Tracing(OtlpExit(SimpleSpanProcessor(self._exporter), "here"), self.clock)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    @property
    def span(self) -> ReadableSpan:
        (span,) = self.spans
        return span


def test_a_span_has_the_times_of_the_clock_it_was_given() -> None:
    desk = Desk()
    began = desk.clock.monotonic()
    desk.clock.advance(0.5)
    trace = desk.tracing.begin("job", TRACE, began=began)
    trace.event("received", at=began)
    desk.clock.advance(0.25)
    trace.event("claimed", node_id="n")
    desk.clock.advance(0.0001)
    trace.end()
    assert (desk.span.start_time, desk.span.end_time) == (1_000_000_000, 1_750_100_000)
    events = [(event.name, event.timestamp) for event in desk.span.events]
    assert events == [("received", 1_000_000_000), ("claimed", 1_750_000_000)]
    assert dict(desk.span.events[1].attributes or {}) == {"node_id": "n"}
    assert desk.span.status.status_code is StatusCode.UNSET


def test_a_span_is_of_the_trace_it_was_told_and_has_no_parent() -> None:
    desk = Desk()
    for trace_id in (TRACE, "f" * 32):
        desk.tracing.begin("job", trace_id).end()
    assert [f"{span.context.trace_id:032x}" for span in desk.spans] == [TRACE, "f" * 32]
    assert [span.parent for span in desk.spans] == [None, None]


def test_spans_of_one_trace_are_told_apart_and_know_their_parent() -> None:
    desk = Desk()
    root = desk.tracing.begin("utterance", TRACE)
    desk.tracing.begin("job", TRACE, parent=root.context).end()
    desk.tracing.begin("job", TRACE, parent=root.context).end()
    root.end()
    *children, parent = desk.spans
    assert [child.parent for child in children] == [parent.context] * 2
    assert len({span.context.span_id for span in desk.spans}) == 3


def test_an_error_is_told_by_its_code() -> None:
    desk = Desk()
    desk.tracing.begin("job", TRACE).end("NO_CAPACITY")
    assert desk.span.status.status_code is StatusCode.ERROR
    assert (desk.span.attributes or {})["error.type"] == "NO_CAPACITY"


def test_spans_say_which_instance_they_are_of() -> None:
    desk = Desk()
    desk.tracing.begin("job", TRACE).end()
    resource: Mapping[str, object] = desk.span.resource.attributes
    assert (resource["service.name"], resource["service.instance.id"]) == ("dragoman", "here")


def test_a_calendar_that_was_set_is_followed() -> None:
    class SetClock(ManualClock):
        set_by_ms = 0

        def now_ms(self) -> int:
            return super().now_ms() + self.set_by_ms

    exporter, clock = InMemorySpanExporter(), SetClock(start_ms=0)
    tracing = Tracing(OtlpExit(SimpleSpanProcessor(exporter), "here"), clock)
    clock.set_by_ms = 3_600_000
    tracing.begin("job", TRACE).end()
    (span,) = exporter.get_finished_spans()
    assert span.start_time == 3_600_000 * 1_000_000


@given(st.text())
def test_any_label_stands_for_one_trace_and_is_never_none(label: str) -> None:
    number = trace_number(label)
    assert 0 < number < 2**128
    assert trace_number(label) == number


def test_32_hex_digits_are_the_trace_they_name_and_zeros_are_no_trace() -> None:
    assert trace_number(TRACE) == int(TRACE, 16)
    assert trace_number("0" * 32) != 0


def test_a_caller_s_span_is_read_from_its_header() -> None:
    context = read_traceparent(TRACEPARENT)
    assert context is not None
    assert f"{context.trace_id:032x}" == TRACE
    assert f"{context.span_id:016x}" == "b7ad6b7169203331"
    assert context.trace_flags.sampled


@pytest.mark.parametrize(
    "header", [None, "", "nonsense", f"00-{TRACE}", f"00-{'0' * 32}-b7ad6b7169203331-01", "é" * 55]
)
def test_a_header_that_makes_no_sense_is_no_header(header: str | None) -> None:
    assert read_traceparent(header) is None


@given(st.text())
def test_no_header_breaks_the_reader(header: str) -> None:
    read_traceparent(header)


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("http://collector:4318/", "http://collector:4318/v1/traces"),
        ("http://collector/otlp/v1/traces", "http://collector/otlp/v1/traces"),
        ("", ""),
    ],
)
def test_a_bare_address_is_completed(endpoint: str, url: str) -> None:
    assert spans_url(endpoint) == url


def test_tracing_without_its_packages_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "dragoman.observability.otlp")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    with pytest.raises(ExtraMissing, match=r"dragoman\[tracing\]"):
        open_tracing("http://127.0.0.1:4318", "here", ManualClock())


def test_closing_sends_what_is_left() -> None:
    desk = Desk()
    trace = desk.tracing.begin("job", TRACE)
    trace.end()
    asyncio.run(desk.tracing.close())
    assert desk.span.name == "job"
