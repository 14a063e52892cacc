"""The metrics of two processes as one answer."""

from __future__ import annotations

from dragoman.api.lab.exposition import joined
from dragoman.observability import Metrics


def test_each_process_counts_its_own_and_no_metric_comes_twice() -> None:
    server, lab = Metrics(), Metrics()
    server.sessions.set(3)
    lab.sessions.set(99)
    lab.lab_items.labels("success").inc(5)
    text = joined(server.exposition(), lab.exposition()).decode()
    lines = text.splitlines()
    assert "scheduler_sessions 3.0" in lines
    assert 'lab_items_total{status="success"} 5.0' in lines
    declared = [line for line in lines if line.startswith("# TYPE")]
    assert len(declared) == len(set(declared))
    alone = [line for line in server.exposition().decode().splitlines() if "# TYPE" in line]
    assert sorted(declared) == sorted(alone)
