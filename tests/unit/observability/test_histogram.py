"""The quick histogram says what prometheus_client's own would."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, disable_created_metrics, generate_latest

from dragoman.observability.histogram import QuickHistogram, QuickHistograms

BUCKETS = (0.000_05, 0.001, 0.25, 1.0, 10.0)


@given(st.lists(st.one_of(st.floats(0, 20), st.sampled_from(BUCKETS)), max_size=30))
def test_both_write_the_same_page(values: list[float]) -> None:
    disable_created_metrics()  # type: ignore[no-untyped-call]
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    quick = QuickHistogram("seconds", "How long.", BUCKETS, ours)
    plain = Histogram("seconds", "How long.", registry=theirs, buckets=BUCKETS)
    for value in values:
        quick.observe(value)
        plain.observe(value)
    assert generate_latest(ours) == generate_latest(theirs)


@given(st.lists(st.tuples(st.sampled_from(("reserve", "open")), st.floats(0, 20)), max_size=30))
def test_both_write_the_same_page_by_label(observed: list[tuple[str, float]]) -> None:
    disable_created_metrics()  # type: ignore[no-untyped-call]
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    quick = QuickHistograms("seconds", "How long.", "op", BUCKETS, ours)
    plain = Histogram("seconds", "How long.", ("op",), registry=theirs, buckets=BUCKETS)
    for label, value in observed:
        quick.observe(label, value)
        plain.labels(label).observe(value)
    assert generate_latest(ours) == generate_latest(theirs)
