"""The metrics of two processes as one answer."""

from __future__ import annotations

import asyncio

from dragoman.api.lab.child import LabChild
from dragoman.api.lab.exposition import LAB_NAMESPACE, joined, with_those_of_the_lab
from dragoman.api.lab.forwarding import Forwarder
from dragoman.auth import OpenAuthenticator
from dragoman.clock import SystemClock
from dragoman.observability import Metrics
from dragoman.settings import Settings


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


def test_a_lab_that_does_not_answer_has_no_metrics_rather_than_zeros() -> None:
    """A counter that falls to zero and comes back would be counted again as a whole."""
    forwarder = Forwarder(LabChild(Settings(), SystemClock()), OpenAuthenticator())
    found = asyncio.run(with_those_of_the_lab(Metrics().exposition(), forwarder)).decode()
    assert "scheduler_sessions 0.0" in found
    assert "lab_items_total" not in found
    assert "lab_zombies_total" not in found


def test_each_process_tells_its_version_and_what_it_uses_under_names_of_its_own() -> None:
    server, lab = Metrics(), Metrics()
    server.describe_process()
    lab.describe_process(LAB_NAMESPACE)
    text = joined(server.exposition(), lab.exposition()).decode()
    for name in ("process_resident_memory_bytes", "process_open_fds", "process_cpu_seconds_total"):
        assert text.count(f"\n{name} ") == 1
        assert text.count(f"\nlab_{name} ") == 1
    assert text.count("\ndragoman_build_info{") == 1
    assert text.count("\nlab_build_info{") == 1
