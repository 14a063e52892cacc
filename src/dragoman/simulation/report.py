"""What came of all runs of a scenario, and its comparison with another: figures for programs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dragoman.simulation.figures import (
    METRICS,
    UNITS,
    FigureEstimate,
    RunFigures,
    estimate,
    estimates,
)
from dragoman.simulation.scenario import Scenario


class SimulationReport(msgspec.Struct, frozen=True):
    """The figures of a scenario over its runs."""

    scenario: str
    seeds: list[int]
    duration_seconds: float
    instances: int
    nodes: int
    slots: int
    cost: float
    bottleneck: str
    """Of the run with the first seed."""
    metrics: dict[str, FigureEstimate]
    """Means over the seeds, with 95 % intervals: times in ms, `refused` and `busy` in percent."""
    runs: list[RunFigures]

    def as_json(self) -> bytes:
        """The report as JSON; the same figures give the same bytes."""
        return msgspec.json.format(msgspec.json.encode(self)) + b"\n"


class FigureDifference(msgspec.Struct, frozen=True):
    """One figure in two scenarios."""

    metric: str
    unit: str
    a: FigureEstimate
    b: FigureEstimate
    change: FigureEstimate
    """B less A, seed by seed."""

    @property
    def is_clear(self) -> bool:
        """Whether chance does not explain it: the interval of the change leaves 0 out."""
        return self.change.low > 0 or self.change.high < 0


class ScenarioComparison(msgspec.Struct, frozen=True):
    """Two scenarios side by side, played with the same seeds."""

    a: SimulationReport
    b: SimulationReport
    differences: list[FigureDifference]

    def as_json(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self)) + b"\n"


def make_report(scenario: Scenario, runs: Sequence[RunFigures]) -> SimulationReport:
    """Add the runs of a scenario up."""
    return SimulationReport(
        scenario=scenario.name,
        seeds=[run.seed for run in runs],
        duration_seconds=scenario.duration_seconds,
        instances=scenario.instances,
        nodes=sum(group.nodes for group in scenario.fleet),
        slots=scenario.slots,
        cost=scenario.cost,
        bottleneck=runs[0].bottleneck,
        metrics=estimates(runs),
        runs=list(runs),
    )


def compare(a: SimulationReport, b: SimulationReport) -> ScenarioComparison:
    """Compare two reports, which must be of the same seeds."""
    if a.seeds != b.seeds:
        raise ValueError("only runs of the same seeds can be compared")
    differences = [
        FigureDifference(
            metric,
            UNITS[metric],
            a.metrics[metric],
            b.metrics[metric],
            estimate(
                [measure(two) - measure(one) for one, two in zip(a.runs, b.runs, strict=True)]
            ),
        )
        for metric, measure in METRICS.items()
    ]
    return ScenarioComparison(a, b, differences)
