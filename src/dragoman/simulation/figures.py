"""Figures of a run, and of several runs with other seeds: means with the interval they lie in."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence

import msgspec

from dragoman.simulation.bottleneck import first_bottleneck
from dragoman.simulation.recording import GroupUse, RunRecorder, StreamOutcomes, pooled
from dragoman.simulation.scenario import Scenario

_DIGITS = 3
_HOURS_A_DAY = 24
_MINUTES_AN_HOUR = 60

_T_95 = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010, 2.1788,
    2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639,
    2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip
"""Student's t for 95 % on both sides, for 1 to 30 degrees of freedom."""


class DurationSpread(msgspec.Struct, frozen=True):
    """Where the values of a duration lie, in milliseconds."""

    mean: float
    p50: float
    p95: float
    p99: float


class WorkFigures(msgspec.Struct, frozen=True):
    """Some of the work: how much there was, and how it went."""

    asked: int
    served: int
    refused: int
    """Everything that was asked for and not served."""
    refused_share: float
    reasons: dict[str, int]
    """Why it was not served, by the code that its caller was told."""
    attempts: float
    """Attempts for each that was served."""
    wait_ms: DurationSpread
    """Waiting for a slot."""
    total_ms: DurationSpread
    """From the end of the input to the result, as its caller sees it."""


class PairFigures(msgspec.Struct, frozen=True):
    """The work of one traffic for one language pair."""

    traffic: str
    pair: str
    whole: WorkFigures
    hours: dict[str, WorkFigures]
    """By hour of the day."""


class GroupFigures(msgspec.Struct, frozen=True):
    """How busy the slots of a group were."""

    name: str
    nodes: int
    slots: int
    busy_share: float
    """Of the slots of connected nodes, over the whole time."""
    most_busy: int
    hours: dict[str, float]
    """The share that was busy, by hour of the day."""
    minutes: list[float]
    """The share that was busy, minute after minute."""


class RunFigures(msgspec.Struct, frozen=True):
    """What came of one run."""

    seed: int
    whole: WorkFigures
    hours: dict[str, WorkFigures]
    pairs: list[PairFigures]
    groups: list[GroupFigures]
    refused_by_minute: list[int]
    sessions_opened: int
    sessions_refused: int
    bottleneck: str
    violations: list[str]
    """Promises that the scheduler makes always, and did not keep."""
    violations_total: int
    faults: list[str]

    @property
    def busy_share(self) -> float:
        """Of all slots, over the whole time."""
        slots = sum(group.slots for group in self.groups)
        busy = sum(group.busy_share * group.slots for group in self.groups)
        return busy / slots if slots else 0.0


class FigureEstimate(msgspec.Struct, frozen=True):
    """A figure over several seeds: its mean, and where the true one lies at 95 %."""

    mean: float
    low: float
    high: float


def run_figures(scenario: Scenario, seed: int, recorder: RunRecorder) -> RunFigures:
    """Add a run's raw figures up."""
    by_key = recorder.outcomes
    hours = sorted({hour for _, hour in by_key})
    minutes = math.ceil(scenario.duration_seconds / 60)
    return RunFigures(
        seed=seed,
        whole=_row([by_key[key] for key in sorted(by_key)]),
        hours={
            _hour_name(hour): _row([by_key[key] for key in sorted(by_key) if key[1] == hour])
            for hour in hours
        },
        pairs=[
            PairFigures(
                stream.traffic,
                stream.pair,
                _row([by_key[key] for key in sorted(by_key) if key[0] == number]),
                {
                    _hour_name(hour): _row([by_key[number, hour]])
                    for hour in hours
                    if (number, hour) in by_key
                },
            )
            for number, stream in enumerate(recorder.streams)
        ],
        groups=[_group(use, scenario, minutes) for use in recorder.groups],
        refused_by_minute=[
            sum(recorder.refused_by_minute.get(minute, {}).values()) for minute in range(minutes)
        ],
        sessions_opened=recorder.sessions_opened,
        sessions_refused=recorder.sessions_refused,
        bottleneck=first_bottleneck(scenario, recorder),
        violations=list(recorder.violations),
        violations_total=recorder.violations_total,
        faults=[f"{at:.1f} s: {what}" for at, what in recorder.faults],
    )


def estimate(values: Sequence[float]) -> FigureEstimate:
    """The mean of a figure over runs; with one run nothing is known of where it lies."""
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return FigureEstimate(_rounded(mean), _rounded(mean), _rounded(mean))
    spread = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    half = t_95(len(values) - 1) * math.sqrt(spread / len(values))
    return FigureEstimate(_rounded(mean), _rounded(mean - half), _rounded(mean + half))


def t_95(freedom: int) -> float:
    """Student's t for an interval of 95 %."""
    if freedom <= len(_T_95):
        return _T_95[freedom - 1]
    # What is left of the normal's 1.96 shrinks with the degrees of freedom.
    return 1.959964 + 2.3723 / freedom + 2.8225 / freedom**2


METRICS: Mapping[str, Callable[[RunFigures], float]] = {
    "p50": lambda run: run.whole.total_ms.p50,
    "p95": lambda run: run.whole.total_ms.p95,
    "p99": lambda run: run.whole.total_ms.p99,
    "mean": lambda run: run.whole.total_ms.mean,
    "wait_p50": lambda run: run.whole.wait_ms.p50,
    "wait_p95": lambda run: run.whole.wait_ms.p95,
    "wait_p99": lambda run: run.whole.wait_ms.p99,
    "wait_mean": lambda run: run.whole.wait_ms.mean,
    "refused": lambda run: 100 * run.whole.refused_share,
    "busy": lambda run: 100 * run.busy_share,
    "attempts": lambda run: run.whole.attempts,
}
"""The figures that goals and comparisons speak of: times in milliseconds, shares in percent."""

UNITS: Mapping[str, str] = {
    **dict.fromkeys(METRICS, "ms"),
    "refused": "%",
    "busy": "%",
    "attempts": "",
}


def estimates(runs: Sequence[RunFigures]) -> dict[str, FigureEstimate]:
    """Every metric over the runs."""
    return {name: estimate([measure(run) for run in runs]) for name, measure in METRICS.items()}


def spread_of(values: array[float] | Sequence[float]) -> DurationSpread:
    """Mean and percentiles; a percentile is a value that occurred."""
    ordered = sorted(values)
    if not ordered:
        return DurationSpread(0.0, 0.0, 0.0, 0.0)
    mean = math.fsum(ordered) / len(ordered)
    p50, p95, p99 = (
        ordered[max(0, math.ceil(share * len(ordered)) - 1)] for share in (0.50, 0.95, 0.99)
    )
    return DurationSpread(_rounded(mean), _rounded(p50), _rounded(p95), _rounded(p99))


def _row(parts: Sequence[StreamOutcomes]) -> WorkFigures:
    whole = pooled(parts)
    refused = whole.unserved.total()
    asked = whole.served + refused
    return WorkFigures(
        asked=asked,
        served=whole.served,
        refused=refused,
        refused_share=round(refused / asked, 6) if asked else 0.0,
        reasons={reason: whole.unserved[reason] for reason in sorted(whole.unserved)},
        attempts=round(whole.attempts / whole.served, 4) if whole.served else 0.0,
        wait_ms=spread_of(whole.waits_ms),
        total_ms=spread_of(whole.totals_ms),
    )


def _group(use: GroupUse, scenario: Scenario, minutes: int) -> GroupFigures:
    by_hour: dict[int, list[float]] = {}
    busy = slots = 0.0
    for minute in sorted(use.by_minute):
        used = use.by_minute[minute]
        hour = int((scenario.start_second_of_day / 60 + minute) // _MINUTES_AN_HOUR)
        sums = by_hour.setdefault(hour, [0.0, 0.0])
        sums[0] += used.busy_seconds
        sums[1] += used.slot_seconds
        busy += used.busy_seconds
        slots += used.slot_seconds
    shares = []
    for minute in range(minutes):
        found = use.by_minute.get(minute)
        shares.append(_share(found.busy_seconds, found.slot_seconds) if found else 0.0)
    return GroupFigures(
        name=use.group.name,
        nodes=use.group.nodes,
        slots=use.group.nodes * use.group.slots,
        busy_share=_share(busy, slots),
        most_busy=use.most_busy,
        hours={_hour_name(hour): _share(*sums) for hour, sums in by_hour.items()},
        minutes=shares,
    )


def _share(part: float, whole: float) -> float:
    return round(part / whole, 4) if whole else 0.0


def _hour_name(hour: int) -> str:
    """An hour as it is shown: ``09:00``, and ``1d 09:00`` on the day after."""
    day, hour_of_day = divmod(hour, _HOURS_A_DAY)
    return f"{f'{day}d ' if day else ''}{hour_of_day:02}:00"


def _rounded(value: float) -> float:
    return round(value, _DIGITS)
