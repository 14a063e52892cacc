"""Making Prometheus metrics in one registry: alone, or one series per label."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from dragoman.observability.histogram import QuickHistogram
from dragoman.observability.labels import Labelled
from dragoman.observability.quick_counters import QuickCounters

SERIES_MAX = 200
"""Series a labelled metric keeps; names past it are counted as ``other``."""


class Declare:
    """Declares metrics: the plural of each kind has labels."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def counter(self, name: str, meaning: str) -> Counter:
        return Counter(name, meaning, registry=self._registry)

    def counters(self, name: str, meaning: str, *labels: str) -> Labelled[Counter]:
        return Labelled(Counter(name, meaning, labels, registry=self._registry), labels, SERIES_MAX)

    def quick_counters(self, name: str, meaning: str, *labels: str) -> QuickCounters:
        return QuickCounters(name, meaning, labels, self._registry)

    def gauge(self, name: str, meaning: str) -> Gauge:
        return Gauge(name, meaning, registry=self._registry)

    def gauges(self, name: str, meaning: str, *labels: str) -> Labelled[Gauge]:
        return Labelled(Gauge(name, meaning, labels, registry=self._registry), labels, SERIES_MAX)

    def histogram(self, name: str, meaning: str, buckets: Sequence[float]) -> QuickHistogram:
        return QuickHistogram(name, meaning, buckets, self._registry)

    def histograms(
        self, name: str, meaning: str, buckets: Sequence[float], *labels: str
    ) -> Labelled[Histogram]:
        metric = Histogram(name, meaning, labels, registry=self._registry, buckets=buckets)
        return Labelled(metric, labels, SERIES_MAX)
