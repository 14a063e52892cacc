"""How much faster than life a simulation is, on one core.

The whole run is what must hold. Other programs slow it down through the shared core and its caches,
now more, now less, so that a run on a busy machine says little. To tell whether one was, the run is
timed in steps, and the pace that a tenth of them reached is shown. It is no verdict: those steps
are chosen for being quick, and some have fewer utterances than others.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from time import process_time

from rich.table import Table

from dragoman.simulation import (
    Exponential,
    Fixed,
    FleetGroup,
    InputKind,
    Scenario,
    Traffic,
    simulate_once,
)

HOLD = 50
"""Times life that a thousand sessions and two hundred nodes must reach."""
_QUICKEST = 0.1


def speed(seconds: float) -> Table:
    """1,000 sessions that speak every 5 s, 200 nodes; with two instances besides."""
    table = Table(
        "scenario", "utterances", "CPU s", "x life", "quickest tenth of steps", "us an utterance",
        title=f"Simulation, {seconds:g} s of life on one core (hold: {HOLD} x for the first)",
    )  # fmt: skip
    for instances in (1, 2):
        scenario = Scenario(
            duration_seconds=seconds,
            warmup_seconds=0,
            instances=instances,
            fleet=(FleetGroup(nodes=200, service_ms=Exponential(500)),),
            traffic=(
                Traffic(
                    sessions=1_000,
                    input=InputKind.SPEECH,
                    utterance_ms=Fixed(2_500),
                    pause_ms=Fixed(2_500),
                ),
            ),
        )
        marks: list[tuple[float, float]] = []
        began = process_time()
        run = simulate_once(scenario, 1, on_progress=partial(_mark, marks))
        took = process_time() - began
        table.add_row(
            f"1,000 sessions, 200 nodes, {instances} instance(s)",
            f"{run.whole.served:,}",
            f"{took:.1f}",
            f"{seconds / took:.0f}" + (_verdict(seconds / took) if instances == 1 else ""),
            f"{_quickest(marks, seconds):.0f} x",
            f"{1e6 * took / max(1, run.whole.served):.0f}",
        )
    return table


def _mark(marks: list[tuple[float, float]], share: float) -> None:
    marks.append((share, process_time()))


def _quickest(marks: list[tuple[float, float]], seconds: float) -> float:
    """Times life of the quick steps; a mark is a share of the run and the CPU time so far."""
    paces = sorted(
        (share - before) * seconds / (cpu - cpu_before)
        for (before, cpu_before), (share, cpu) in pairwise(marks)
        if cpu > cpu_before
    )
    return paces[-1 - int(len(paces) * _QUICKEST)] if paces else 0.0


def _verdict(times_life: float) -> str:
    return " (held)" if times_life >= HOLD else " (NOT held)"
