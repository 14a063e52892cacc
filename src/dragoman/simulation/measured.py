"""Service times as they were measured: from a server's metrics page, or from a lab run's export."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from dragoman.simulation.distributions import Measured

HISTOGRAM = "scheduler_job_duration_seconds"
"""The histogram of a server's `/metrics` that says how long jobs take."""
_LAB_FIELDS = ("latency_ms", "duration_ms", "total_ms")
"""The columns of a lab run's export that say how long a target took, the best first."""


def read_measured(written: object, folder: Path) -> Measured | None:
    """The distribution in a file that ``{ metrics = .. }`` or ``{ results = .. }`` names.

    None when the value names no file. Raises ValueError that says what is wrong.
    """
    if not isinstance(written, Mapping):
        return None
    if set(written) == {"metrics"}:
        return from_metrics(_text_of(written["metrics"], folder), str(written["metrics"]))
    if "results" in written and set(written) <= {"results", "field"}:
        field = written.get("field")
        return from_results(_path_of(written["results"], folder), field and str(field))
    return None


def from_metrics(text: str, source: str = "the page") -> Measured:
    """The job durations of a metrics page, as it was saved from a running server, in ms."""
    counts: dict[float, float] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == f"{HISTOGRAM}_bucket":
                    bound = float(sample.labels["le"])
                    counts[bound] = counts.get(bound, 0.0) + sample.value
    except (ValueError, KeyError) as error:
        raise ValueError(f"{source} is not a metrics page: {error}") from error
    return _of_buckets(sorted(counts.items()), source)


def _of_buckets(buckets: Sequence[tuple[float, float]], source: str) -> Measured:
    total = buckets[-1][1] if buckets else 0.0
    if not total:
        raise ValueError(f"{source} has no jobs in {HISTOGRAM}; save it after some traffic")
    shares, values = [0.0], [0.0]
    for bound, count in buckets:
        share = count / total
        if share <= shares[-1]:
            if share == 0.0 and bound != float("inf"):
                values[0] = bound * 1000  # nothing was quicker
            continue
        shares.append(share)
        # Of the last bucket only its lower bound is known.
        values.append(values[-1] if bound == float("inf") else bound * 1000)
    shares[-1] = 1.0
    return Measured(tuple(shares), tuple(values))


def from_results(path: Path, field: str | None = None) -> Measured:
    """The times of the rows that a lab run exported, as CSV or as JSON lines."""
    times = []
    try:
        for row in _rows(path):
            name = field or next((name for name in _LAB_FIELDS if row.get(name)), None)
            value = row.get(name) if name else None
            if value not in (None, ""):
                times.append(float(str(value)))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    except ValueError as error:
        raise ValueError(f"{path} has a row whose time is no number: {error}") from error
    if not times:
        columns = field or ", ".join(_LAB_FIELDS)
        raise ValueError(f"{path} has no row with {columns}; name the column with `field`")
    if min(times) < 0:
        raise ValueError(f"{path} has a time below 0")
    return Measured.of_samples(times)


def _rows(path: Path) -> Iterator[Mapping[str, object]]:
    with path.open(encoding="utf-8", newline="") as lines:
        if path.suffix == ".csv":
            yield from csv.DictReader(lines)
            return
        for line in lines:
            row = json.loads(line) if line.strip() else {}
            if isinstance(row, dict):
                yield row


def _path_of(written: object, folder: Path) -> Path:
    if not isinstance(written, str) or not written:
        raise ValueError("it must name a file")
    return folder / written


def _text_of(written: object, folder: Path) -> str:
    path = _path_of(written, folder)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
