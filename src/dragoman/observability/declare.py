"""Making Prometheus metrics in one registry: alone, or one series per label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from dragoman.observability.histogram import CappedHistograms, QuickHistogram, QuickHistograms
from dragoman.observability.labels import Labelled
from dragoman.observability.quick_counters import QuickCounters

SERIES_MAX = 200
"""Series a labelled metric keeps; names past it are counted as ``other``."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A metric as the reference page shows it."""

    name: str
    kind: str
    meaning: str
    labels: tuple[str, ...] = ()


class Declare:
    """Declares metrics: the plural of each kind has labels."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self.declared: list[Declared] = []

    def _note(self, kind: str, name: str, meaning: str, *labels: str) -> None:
        self.declared.append(Declared(name, kind, meaning, labels))

    def counter(self, name: str, meaning: str) -> Counter:
        self._note("counter", name, meaning)
        return Counter(name, meaning, registry=self._registry)

    def counters(self, name: str, meaning: str, *labels: str) -> Labelled[Counter]:
        self._note("counter", name, meaning, *labels)
        return Labelled(Counter(name, meaning, labels, registry=self._registry), labels, SERIES_MAX)

    def quick_counters(self, name: str, meaning: str, *labels: str) -> QuickCounters:
        self._note("counter", name, meaning, *labels)
        return QuickCounters(name, meaning, labels, self._registry)

    def gauge(self, name: str, meaning: str) -> Gauge:
        self._note("gauge", name, meaning)
        return Gauge(name, meaning, registry=self._registry)

    def gauges(self, name: str, meaning: str, *labels: str) -> Labelled[Gauge]:
        self._note("gauge", name, meaning, *labels)
        return Labelled(Gauge(name, meaning, labels, registry=self._registry), labels, SERIES_MAX)

    def histogram(self, name: str, meaning: str, buckets: Sequence[float]) -> QuickHistogram:
        self._note("histogram", name, meaning)
        return QuickHistogram(name, meaning, buckets, self._registry)

    def quick_histograms(
        self, name: str, meaning: str, buckets: Sequence[float], label: str
    ) -> QuickHistograms:
        self._note("histogram", name, meaning, label)
        return QuickHistograms(name, meaning, label, buckets, self._registry)

    def capped_histograms(
        self, name: str, meaning: str, buckets: Sequence[float], *labels: str
    ) -> CappedHistograms:
        self._note("histogram", name, meaning, *labels)
        return CappedHistograms(name, meaning, labels, buckets, SERIES_MAX, self._registry)

    def histograms(
        self, name: str, meaning: str, buckets: Sequence[float], *labels: str
    ) -> Labelled[Histogram]:
        self._note("histogram", name, meaning, *labels)
        metric = Histogram(name, meaning, labels, registry=self._registry, buckets=buckets)
        return Labelled(metric, labels, SERIES_MAX)
