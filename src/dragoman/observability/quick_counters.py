"""Counters that are cheap to count up and seldom read."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector


class Count:
    """One series. On a hot path, add to `value`."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self, amount: int = 1) -> None:
        self.value += amount


class QuickCounters(Collector):
    """Does what prometheus_client's labelled counter does, for one thread and few, known labels."""

    def __init__(
        self, name: str, meaning: str, labels: tuple[str, ...], registry: CollectorRegistry
    ) -> None:
        self._name = name
        self._meaning = meaning
        self._labels = labels
        self._series: dict[tuple[str, ...], Count] = {}
        registry.register(self)

    def labels(self, *values: str) -> Count:
        """The series of these label values."""
        found = self._series.get(values)
        if found is None:
            found = self._series[tuple(map(str, values))] = Count()
        return found

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(self._name, self._meaning, labels=self._labels)
        for values, count in self._series.items():
            family.add_metric(values, count.value)
        yield family
