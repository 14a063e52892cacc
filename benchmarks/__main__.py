"""Runs benchmarks by name and prints their tables."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import fleet, ledger, listeners, shared, voice
from benchmarks.cluster import run as cluster
from benchmarks.console import run as console_pages
from benchmarks.full_job import run as full_job
from benchmarks.lab import on_the_fleet
from benchmarks.lab import run as lab
from benchmarks.mirror import run as mirror
from benchmarks.profiling import run as profile
from benchmarks.scale import run as scale
from benchmarks.sight import run as sight
from benchmarks.simulation import run as simulation
from benchmarks.workers import run as workers

BENCHMARKS: dict[str, Callable[[argparse.Namespace], list[Table]]] = {
    "ledger": lambda chosen: ledger.run(chosen.quick),
    "shared": lambda chosen: shared.run(chosen.quick),
    "fleet": lambda chosen: fleet.run(chosen.quick),
    "listeners": lambda chosen: listeners.run(chosen.quick, chosen.record),
    "sight": lambda chosen: sight.run(chosen.quick),
    "cluster": lambda chosen: cluster.run(chosen.quick, chosen.record),
    "full_job": lambda chosen: full_job.run(
        full_job.Options(chosen.quick, chosen.peers, chosen.ray, chosen.record)
    ),
    "scale": lambda chosen: scale.run(
        scale.Options(chosen.quick, chosen.record, chosen.instances, chosen.masters, chosen.nodes)
    ),
    "voice": lambda chosen: voice.run(chosen.quick, chosen.record),
    "profile": lambda chosen: profile.run(chosen.quick, chosen.svg, chosen.side or profile.SIDES),
    "mirror": lambda chosen: mirror.run(mirror.Options(chosen.quick, chosen.peers, chosen.record)),
    "console": lambda chosen: console_pages.run(chosen.quick, chosen.record),
    "simulate": lambda chosen: simulation.run(chosen.quick),
    "lab": lambda chosen: lab.run(lab.Options(chosen.quick, chosen.peers, chosen.record)),
    "on_the_fleet": lambda chosen: on_the_fleet.run(chosen.quick, chosen.record),
    "workers": lambda chosen: workers.run(
        workers.Options(
            chosen.quick, chosen.peers, chosen.record, chosen.database or workers.DATABASES
        )
    ),
}


def _numbers(written: str) -> tuple[int, ...]:
    """Numbers above 0, with commas between them."""
    found = tuple(int(number) for number in written.split(","))
    if min(found) < 1:
        raise ValueError(written)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"one of: {', '.join(BENCHMARKS)} (default: all)"
    )
    parser.add_argument("--quick", action="store_true", help="small fleets, few jobs: a smoke test")
    parser.add_argument(
        "--peers",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="full_job, lab, mirror, workers: install peers under .bench and measure them "
        "(default: yes)",
    )
    parser.add_argument("--ray", action="store_true", help="full_job: and Ray, which is large")
    parser.add_argument(
        "--record",
        action="store_true",
        help="cluster, console, full_job, lab, listeners, mirror, on_the_fleet, scale, voice, "
        "workers: write the figures to docs/performance.md",
    )
    for name, default in (("instances", (1, 2, 4)), ("masters", (1, 3)), ("nodes", (40, 400))):
        shown = ",".join(map(str, default))
        parser.add_argument(
            f"--{name}",
            type=_numbers,
            default=default,
            metavar="N,N",
            help=f"scale: how many {name}, one after another (default: {shown})",
        )
    parser.add_argument(
        "--database",
        action="append",
        choices=workers.DATABASES,
        help="workers: only on this database; may be repeated (default: all)",
    )
    parser.add_argument(
        "--svg", type=Path, metavar="FILE", help="profile: draw a flame graph there"
    )
    parser.add_argument(
        "--side",
        action="append",
        choices=profile.SIDES,
        help="profile: only this side of a job; may be repeated (default: all)",
    )
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]}; there are: {', '.join(BENCHMARKS)}")
    console = Console(width=110)
    console.print(f"Python {platform.python_version()}, {platform.machine()}")
    for name in chosen.names or BENCHMARKS:
        for table in BENCHMARKS[name](chosen):
            console.print(table)


if __name__ == "__main__":
    main()
