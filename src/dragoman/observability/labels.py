"""Labels with a bound: however many names arrive, a metric has only so many series."""

from __future__ import annotations

from typing import Generic, TypeVar

from prometheus_client.metrics import MetricWrapperBase

MetricT = TypeVar("MetricT", bound=MetricWrapperBase)

OTHER = "other"
"""The label of everything past a metric's bound."""

_REASON_MAX_CHARACTERS = 64
_NAME_MAX_CHARACTERS = 128


def normal_reason(reason: str) -> str:
    """A reason as it is counted: trimmed, lower-cased and cut to 64 characters."""
    return _printable(reason.strip().lower()[:_REASON_MAX_CHARACTERS].rstrip())


def normal_name(name: str) -> str:
    """An id or a name as it is counted: trimmed and cut to 128 characters."""
    return _printable(name.strip()[:_NAME_MAX_CHARACTERS])


def _printable(text: str) -> str:
    # Half a character cannot be written as UTF-8; an empty label means "no label" to Prometheus.
    return text.encode("utf-8", "replace").decode("utf-8") or "unknown"


class Labelled(Generic[MetricT]):
    """A metric with labels, of which at most `max_series` combinations are kept.

    On a hot path, bind once (``ended = metrics.jobs.labels("live", "success")``) and count on what
    is returned.
    """

    def __init__(self, metric: MetricT, label_names: tuple[str, ...], max_series: int) -> None:
        self._metric = metric
        self._normal = tuple(
            normal_reason if name == "reason" else normal_name for name in label_names
        )
        self._max_series = max_series
        self._series: dict[tuple[str, ...], MetricT] = {}
        self._other: MetricT | None = None

    def labels(self, *values: str) -> MetricT:
        """The series of these label values, or the one named ``other`` when there are too many."""
        series = self._series.get(values)
        return series if series is not None else self._find(values)

    def counts(self) -> dict[str, float]:
        """What a counter or gauge holds now, by label value (several are joined by a colon)."""
        return {
            ":".join(sample.labels.values()): sample.value
            for family in self._metric.collect()
            for sample in family.samples
        }

    def _find(self, values: tuple[str, ...]) -> MetricT:
        normal = tuple(rule(value) for rule, value in zip(self._normal, values, strict=True))
        series = self._series.get(normal)
        if series is not None:
            return series
        if len(self._series) >= self._max_series:
            if self._other is None:
                self._other = self._metric.labels(*(OTHER for _ in normal))
            return self._other
        series = self._series[normal] = self._metric.labels(*normal)
        return series
