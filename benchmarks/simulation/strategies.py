"""The strategies of selection on fleets whose nodes are not alike, by simulation."""

from __future__ import annotations

from dataclasses import replace

from rich.table import Table

from dragoman.live.ledger import Strategy
from dragoman.simulation import (
    FleetGroup,
    InputKind,
    Lognormal,
    Runner,
    Scenario,
    Traffic,
    TrafficKind,
    make_report,
    shown_estimate,
)

STRATEGIES = tuple(strategy.value for strategy in Strategy)
_FAST = FleetGroup(name="fast", nodes=10, slots=4, service_ms=Lognormal(400, 900))
FLEETS: dict[str, tuple[FleetGroup, ...]] = {
    "20 alike": (replace(_FAST, nodes=20),),
    "10 fast, 10 three times as slow": (
        _FAST,
        replace(_FAST, name="slow", service_ms=Lognormal(1_200, 2_700)),
    ),
    "16 small, 2 large and fast": (
        replace(_FAST, name="small", nodes=16, slots=2, service_ms=Lognormal(800, 1_800)),
        replace(_FAST, name="large", nodes=2, slots=24, service_ms=Lognormal(400, 900)),
    ),
}
LOADS = (0.5, 0.8)


def _scenario(fleet: tuple[FleetGroup, ...], load: float, strategy: str, jobs: int) -> Scenario:
    capacity = sum(g.nodes * g.slots / (g.service_ms.mean / 1000) for g in fleet)
    per_second = load * capacity
    traffic = Traffic(
        kind=TrafficKind.JOBS, input=InputKind.TEXT, jobs_per_second=per_second, waits=True
    )
    return Scenario(
        name=strategy,
        duration_seconds=20 + jobs / per_second,
        warmup_seconds=20,
        fleet=fleet,
        traffic=(traffic,),
        settings={"scheduler.selection.strategy": strategy},
    )


def strategies(runs: int, jobs: int) -> list[Table]:
    """A table for each fleet."""
    tables = []
    with Runner() as runner:
        for name, fleet in FLEETS.items():
            table = Table(
                "load", "strategy", "mean ms", "p50", "p95", "p99", "wait p99",
                title=f"Strategies, {name} ({runs} runs of {jobs:,} jobs, 95 % intervals)",
            )  # fmt: skip
            for load in LOADS:
                for strategy in STRATEGIES:
                    scenario = _scenario(fleet, load, strategy, jobs)
                    found = runner.run([(scenario, seed) for seed in range(runs)])
                    figures = make_report(scenario, found).metrics
                    shown = [
                        shown_estimate(figures[metric])
                        for metric in ("mean", "p50", "p95", "p99", "wait_p99")
                    ]
                    table.add_row(f"{load:.0%}", strategy, *shown)
            tables.append(table)
    return tables
