"""Which alerts would fire, judged by the process itself where there is no Prometheus.

The conditions are those of ``deploy/prometheus/alerts.yml``, as far as one process has the figures:
what Prometheus alone can know (that a process is gone, that it starts over and over, that instances
disagree) is in `ELSEWHERE`. The tests feed both with the same series.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal, NamedTuple

Labels = tuple[tuple[str, str], ...]
Readings = Mapping[str, Mapping[Labels, float]]
"""Metrics as they were at one look, by name and by labels."""

KEPT_SECONDS = 960.0
"""The longest look back is fifteen minutes."""

Severity = Literal["page", "ticket"]


@dataclass(frozen=True, slots=True)
class AlertFinding:
    """What a condition holds for, such as one dependency, and the figure that says so."""

    about: Labels
    value: float


class _Kept(NamedTuple):
    """One metric at one look: its labels, and a value for each."""

    labels: tuple[Labels, ...]
    values: array[float]


_Look = dict[str, _Kept]


class Looks:
    """The readings of the last minutes.

    Labels stay from look to look, and most values do, too. Each look shares with the one before
    what did not change: kept anew each time, the looks would take ten megabytes.
    """

    def __init__(self) -> None:
        self._looks: deque[tuple[float, _Look]] = deque()

    def add(self, now: float, readings: Readings) -> None:
        before: _Look = self._looks[-1][1] if self._looks else {}
        look = {name: _kept(found, before.get(name)) for name, found in readings.items()}
        self._looks.append((now, look))
        while self._looks[0][0] < now - KEPT_SECONDS:
            self._looks.popleft()

    def series(self, name: str, **wanted: str) -> dict[Labels, float]:
        """What a metric shows now, by labels; those wanted only."""
        return _series(self._looks[-1][1], name, wanted)

    def total(self, name: str, **wanted: str) -> float:
        return sum(self.series(name, **wanted).values())

    def lowest(self, name: str, seconds: float) -> float:
        """The least that a gauge without labels showed within so long."""
        now = self._looks[-1][0]
        shown = [
            value
            for at, look in self._looks
            if at > now - seconds
            for value in _series(look, name, {}).values()
        ]
        return min(shown, default=0.0)

    def increases(self, name: str, seconds: float, **wanted: str) -> dict[Labels, float]:
        """By how much counters have grown within so long, by labels."""
        now, last = self._looks[-1]
        before = next(look for at, look in self._looks if at >= now - seconds)
        known = _series(before, name, wanted)
        shown = _series(last, name, wanted)
        # A series that was not there before began at zero.
        return {labels: max(0.0, value - known.get(labels, 0.0)) for labels, value in shown.items()}

    def increase(self, name: str, seconds: float, **wanted: str) -> float:
        return sum(self.increases(name, seconds, **wanted).values())

    def quantile(self, share: float, name: str, seconds: float, **wanted: str) -> float | None:
        """Within which value this share of what a histogram saw lately lies; None: nothing."""
        buckets: dict[float, float] = {}
        for labels, count in self.increases(f"{name}_bucket", seconds, **wanted).items():
            upper = dict(labels)["le"]
            bound = inf if upper == "+Inf" else float(upper)
            buckets[bound] = buckets.get(bound, 0.0) + count
        return _quantile(share, sorted(buckets.items()))


def _kept(found: Mapping[Labels, float], before: _Kept | None) -> _Kept:
    labels, values = tuple(found), array("d", found.values())
    if before is None:
        return _Kept(labels, values)
    if before.labels != labels:
        known = {one: one for one in before.labels}
        return _Kept(tuple(known.get(one, one) for one in labels), values)
    return before if before.values == values else _Kept(before.labels, values)


def _series(look: _Look, name: str, wanted: Mapping[str, str]) -> dict[Labels, float]:
    kept = look.get(name)
    if kept is None:
        return {}
    return {
        labels: value
        for labels, value in zip(kept.labels, kept.values, strict=True)
        if wanted.items() <= dict(labels).items()
    }


def _quantile(share: float, buckets: Sequence[tuple[float, float]]) -> float | None:
    if not buckets or not buckets[-1][1]:
        return None
    wanted = share * buckets[-1][1]
    lower = below = 0.0
    for upper, upto in buckets:
        if upto >= wanted:
            if upper == inf:
                return lower
            return lower + (upper - lower) * (wanted - below) / (upto - below)
        lower, below = upper, upto
    return lower


Judge = Callable[[Looks], Iterable[AlertFinding]]


@dataclass(frozen=True, slots=True)
class AlertRule:
    """An alert: when its condition holds for so long, it fires."""

    name: str
    severity: Severity
    for_seconds: float
    judge: Judge
    summary: str
    """`{value}`, and the labels of what the finding is about, stand in it."""
    shown: Callable[[float], str] = str
    """How the value is written."""

    @property
    def runbook(self) -> str:
        """Its entry in the runbook."""
        return f"docs/howto/runbook.md#{self.name.lower()}"


def _percent(value: float) -> str:
    return f"{value * 100:.3g}%"


def _seconds(value: float) -> str:
    return f"{value:.3g} s"


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _count(value: float) -> str:
    return f"{value:.4g}"


def _when(holds: bool, value: float, *about: tuple[str, str]) -> list[AlertFinding]:
    return [AlertFinding(about, value)] if holds else []


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _over(limit: float, value: float | None) -> list[AlertFinding]:
    return _when(value is not None and value > limit, value or 0.0)


def _dependencies(looks: Looks) -> Iterable[AlertFinding]:
    for labels, up in looks.series("scheduler_dependency_up").items():
        if not up and dict(labels).get("dependency") != "lab":
            yield AlertFinding((("dependency", dict(labels)["dependency"]),), up)


def _not_ready(looks: Looks) -> Iterable[AlertFinding]:
    shown = looks.series("scheduler_ready")
    return _when(bool(shown) and not any(shown.values()), 0.0)


def _no_ready_node(looks: Looks) -> Iterable[AlertFinding]:
    is_known = looks.series("scheduler_nodes", status="ready") or looks.series("scheduler_sessions")
    return _when(bool(is_known) and not looks.total("scheduler_nodes", status="ready"), 0.0)


def _jobs_fail(looks: Looks) -> Iterable[AlertFinding]:
    failed = looks.increase("scheduler_jobs_total", 300, outcome="failed")
    return _over(0.05, _share(failed, looks.increase("scheduler_jobs_total", 300)))


def _slots(looks: Looks) -> Iterable[AlertFinding]:
    used = looks.total("scheduler_slots", state="used")
    return _over(0.9, _share(used, looks.total("scheduler_slots")))


def _unwell(looks: Looks) -> Iterable[AlertFinding]:
    unwell = sum(looks.total("scheduler_nodes", status=one) for one in ("degraded", "offline"))
    return _over(0.2, _share(unwell, looks.total("scheduler_nodes")))


def _failovers(looks: Looks) -> Iterable[AlertFinding]:
    moved = looks.increase("scheduler_failover_total", 600)
    return _over(0.05, _share(moved, looks.increase("scheduler_jobs_total", 600)))


def _full(used: str, most: str, limit: float) -> Judge:
    return lambda looks: _over(limit, _share(looks.total(used), looks.total(most)))


def _slow_paths(looks: Looks) -> Iterable[AlertFinding]:
    for labels, grown in looks.increases("scheduler_slow_path_total", 300).items():
        if grown / 300 > 0.2:
            yield AlertFinding((("path", dict(labels)["path"]),), grown / 300)


def _redis(looks: Looks) -> Iterable[AlertFinding]:
    name = "scheduler_redis_op_seconds"
    operations = {dict(labels)["op"] for labels in looks.series(f"{name}_bucket")}
    for operation in sorted(operations):
        slowest = looks.quantile(0.99, name, 300, op=operation)
        if slowest is not None and slowest > 0.1:
            yield AlertFinding((("op", operation),), slowest)


def _lab_down(looks: Looks) -> Iterable[AlertFinding]:
    shown = looks.series("scheduler_dependency_up", dependency="lab")
    return _when(bool(shown) and not any(shown.values()), 0.0)


WATCHED: frozenset[str] = frozenset(
    {
        "process_max_fds",
        "process_open_fds",
        "scheduler_buffered_bytes",
        "scheduler_buffered_bytes_max",
        "scheduler_dependency_up",
        "scheduler_dispatch_latency_seconds_bucket",
        "scheduler_dlq_total",
        "scheduler_event_loop_lag_seconds_bucket",
        "scheduler_failover_total",
        "scheduler_inbox_pending",
        "scheduler_jobs_total",
        "scheduler_live_samples_total",
        "scheduler_model_na_marked_total",
        "scheduler_model_na_overflow_total",
        "scheduler_nodes",
        "scheduler_pending_jobs",
        "scheduler_ready",
        "scheduler_redis_full_total",
        "scheduler_redis_op_seconds_bucket",
        "scheduler_service_catalog_fail_count",
        "scheduler_sessions",
        "scheduler_sessions_max",
        "scheduler_slots",
        "scheduler_slow_path_total",
        "scheduler_stats_snapshot_age_seconds",
    }
)
"""The metrics that the rules read; no others are kept."""

RULES: tuple[AlertRule, ...] = (
    AlertRule(
        "DragomanDependencyDown",
        "page",
        60,
        _dependencies,
        "The server cannot reach {dependency}, and refuses work.",
    ),
    AlertRule(
        "DragomanNotReady",
        "page",
        300,
        _not_ready,
        "The server has not been ready for work for five minutes.",
    ),
    AlertRule(
        "DragomanNoReadyNode",
        "page",
        120,
        _no_ready_node,
        "There is no node that is ready; every job is refused.",
    ),
    AlertRule("DragomanJobsFail", "page", 300, _jobs_fail, "{value} of the jobs fail.", _percent),
    AlertRule(
        "DragomanDispatchSlow",
        "ticket",
        600,
        lambda looks: _over(1, looks.quantile(0.99, "scheduler_dispatch_latency_seconds", 300)),
        "One job in a hundred waits longer than {value} for its node.",
        _seconds,
    ),
    AlertRule(
        "DragomanSlotsNearlyFull",
        "ticket",
        600,
        _slots,
        "{value} of the slots are taken.",
        _percent,
    ),
    AlertRule(
        "DragomanJobsWait",
        "ticket",
        300,
        lambda looks: _over(0, looks.lowest("scheduler_pending_jobs", 300)),
        "Jobs have waited for slots for ten minutes without a break.",
    ),
    AlertRule(
        "DragomanNodesUnwell",
        "ticket",
        600,
        _unwell,
        "{value} of the nodes are degraded or offline.",
        _percent,
    ),
    AlertRule(
        "DragomanFailovers",
        "ticket",
        600,
        _failovers,
        "{value} of the jobs need a second node.",
        _percent,
    ),
    AlertRule(
        "DragomanSessionsNearlyFull",
        "ticket",
        300,
        _full("scheduler_sessions", "scheduler_sessions_max", 0.9),
        "The server has {value} of the sessions that it may have.",
        _percent,
    ),
    AlertRule(
        "DragomanBufferNearlyFull",
        "ticket",
        300,
        _full("scheduler_buffered_bytes", "scheduler_buffered_bytes_max", 0.8),
        "The server keeps {value} of the bytes that it may keep for others.",
        _percent,
    ),
    AlertRule(
        "DragomanFilesNearlyFull",
        "page",
        300,
        _full("process_open_fds", "process_max_fds", 0.8),
        "{value} of the files are open that the system allows the server.",
        _percent,
    ),
    AlertRule(
        "DragomanModelsMissing",
        "ticket",
        600,
        lambda looks: _over(0.1, looks.increase("scheduler_model_na_marked_total", 600) / 600),
        "Nodes keep reporting models they do not have.",
    ),
    AlertRule(
        "DragomanModelReportsLost",
        "ticket",
        0,
        lambda looks: _over(0, looks.increase("scheduler_model_na_overflow_total", 600)),
        "More reports of missing models came than could be queued.",
    ),
    AlertRule(
        "DragomanCatalogFails",
        "ticket",
        900,
        lambda looks: _when(
            looks.total("scheduler_service_catalog_fail_count") >= 3,
            looks.total("scheduler_service_catalog_fail_count"),
        ),
        "The service catalog could not be fetched {value} times in a row.",
        _count,
    ),
    AlertRule(
        "DragomanEventLoopLate",
        "page",
        300,
        lambda looks: _over(0.05, looks.quantile(0.99, "scheduler_event_loop_lag_seconds", 300)),
        "The event loop wakes {value} late.",
        _seconds,
    ),
    AlertRule(
        "DragomanSlowPaths",
        "ticket",
        600,
        _slow_paths,
        "{path} keeps taking longer than path_warn_ms.",
    ),
    AlertRule(
        "DragomanStatsOld",
        "ticket",
        60,
        lambda looks: _over(60, looks.total("scheduler_stats_snapshot_age_seconds")),
        "The stats snapshot is {value} old.",
        _seconds,
    ),
    AlertRule(
        "DragomanRedisSlow",
        "ticket",
        300,
        _redis,
        "One {op} in a hundred takes Redis longer than {value}.",
        _seconds,
    ),
    AlertRule(
        "DragomanRedisFull",
        "page",
        0,
        lambda looks: _over(0, looks.increase("scheduler_redis_full_total", 300)),
        "Redis is full: it refused {value} operations within five minutes.",
        _whole,
    ),
    AlertRule(
        "DragomanInboxFills",
        "page",
        120,
        lambda looks: _over(1000, looks.lowest("scheduler_inbox_pending", 120)),
        "The server is {value} notes behind what other instances ask of it.",
        _count,
    ),
    AlertRule(
        "DragomanDeadLetters",
        "ticket",
        0,
        lambda looks: _over(0, looks.increase("scheduler_dlq_total", 600)),
        "The server gave up notes from other instances.",
    ),
    AlertRule(
        "DragomanLiveSampleLost",
        "ticket",
        900,
        lambda looks: _over(
            0, looks.increase("scheduler_live_samples_total", 900, result="left_out")
        ),
        "The server leaves out live jobs that were to be scored.",
    ),
    AlertRule(
        "DragomanLabDown", "ticket", 120, _lab_down, "The lab does not answer; live work goes on."
    ),
)

ELSEWHERE: frozenset[str] = frozenset(
    {
        "DragomanDown",
        "DragomanRestarts",
        "DragomanInstancesDisagree",
        "DragomanMixedVersions",
        "DragomanLiveQualityFalls",
        "DragomanLabRestarts",
        "DragomanLabItemsFail",
        "DragomanLabItemsNotTaken",
        "DragomanLabWorkersSilent",
        "DragomanLabLateWrites",
        "DragomanLabMirrorBehind",
        "DragomanLabRefillSlow",
    }
)
"""Alerts that take figures of other processes, or of a day: Prometheus judges them."""


@dataclass(frozen=True, slots=True)
class AlertState:
    """An alert whose condition holds."""

    rule: AlertRule
    about: Labels
    value: float
    since: float
    """Since when, in monotonic seconds."""
    firing: bool
    """It has held for long enough; otherwise it is pending."""

    @property
    def summary(self) -> str:
        return self.rule.summary.format(value=self.rule.shown(self.value), **dict(self.about))


@dataclass
class AlertJudge:
    """Judges every rule at each look, and remembers since when each condition holds."""

    rules: Sequence[AlertRule] = RULES
    states: list[AlertState] = field(default_factory=list)
    _looks: Looks = field(default_factory=Looks)
    _since: dict[tuple[str, Labels], float] = field(default_factory=dict)

    def look(self, now: float, readings: Readings) -> None:
        self._looks.add(now, readings)
        since: dict[tuple[str, Labels], float] = {}
        states: list[AlertState] = []
        for rule in self.rules:
            for found in rule.judge(self._looks):
                began = since[rule.name, found.about] = self._since.get(
                    (rule.name, found.about), now
                )
                firing = now - began >= rule.for_seconds
                states.append(AlertState(rule, found.about, found.value, began, firing))
        self._since, self.states = since, states
