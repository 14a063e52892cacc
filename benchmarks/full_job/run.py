"""Runs the measurements of the full job one after another."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from rich.table import Table

from benchmarks.full_job.comparison import FULL, QUICK, compare, comparison_figures
from benchmarks.full_job.page import record
from benchmarks.full_job.peers.rounds import measure_peers, peer_figures
from benchmarks.full_job.streaming import (
    crowd_figures,
    measure_crowd,
    measure_speech,
    speech_figures,
)


@dataclass(frozen=True)
class Options:
    """What of it to run, and what to do with the figures."""

    quick: bool = False
    peers: bool = True
    ray: bool = False
    record: bool = False


def run(options: Options) -> list[Table]:
    """Everything in one run, so that the figures may be compared."""
    effort = QUICK if options.quick else FULL
    jobs = compare(effort, print)
    relay_us = min(row.relay_us for row in jobs if not row.kind.audio_bytes)
    figures = [
        comparison_figures(jobs),
        speech_figures(measure_speech(effort, print), relay_us),
        crowd_figures(measure_crowd(effort, print)),
    ]
    if options.peers:
        text_us = min(row.dragoman_us for row in jobs if not row.kind.audio_bytes)
        figures.append(peer_figures(measure_peers(effort, print, ray=options.ray), text_us))
    if options.record:
        record("full_job", figures, datetime.now(UTC).date())
    return [table.drawn() for table in figures]
