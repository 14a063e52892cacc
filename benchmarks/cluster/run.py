"""Runs the measurements of a cluster one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median

from rich.table import Table

from benchmarks.cluster.load import (
    FullSpeed,
    Outcome,
    Paced,
    Place,
    RoundTrips,
    Waits,
    Weighed,
    Weight,
    drive,
)
from benchmarks.cluster.servers import instances, redis_server, slow_line
from benchmarks.full_job.comparison import FULL, QUICK, Effort
from benchmarks.full_job.figures import Figures
from benchmarks.full_job.load import NODES, SESSIONS, Address, DriverFailed
from benchmarks.full_job.page import record
from benchmarks.processes import first_in_line

HOLD_RATIO = {"node local": 2.5, "node remote": 4.0}
"""At most so many times the CPU of the memory ledger, in all instances together."""
HOLD_REDIS_US = {"node local": 70, "node remote": 110}
HOLD_OPERATIONS = {"node local": 9, "node remote": 12}
HOLD_ROUND_TRIPS = {"node local": 1, "node remote": 2}
HOLD_P99_MS = {"node local": 2.0, "node remote": 3.0}
HOLD_NODE_BYTES = 5_000_000
HALF_LOAD_SECONDS = 4.0
DELAY_MS = 100
THOUSAND = 1_000


@dataclass(frozen=True)
class Layout:
    """Where nodes and sessions are connected."""

    name: str
    instances: int
    on_redis: bool = True
    nodes_at: tuple[int, ...] = (0,)
    sessions_at: tuple[int, ...] = (0,)

    @contextmanager
    def place(self, delay_ms: int = 0) -> Iterator[Place]:
        """Servers that run for this layout alone."""
        if not self.on_redis:
            with instances(1, None) as alone:
                yield Place(alone, alone, alone)
            return
        with redis_server() as redis:
            if delay_ms:
                with slow_line(redis, delay_ms) as line, instances(self.instances, line) as found:
                    yield self._placed(found, redis)
            else:
                with instances(self.instances, redis) as found:
                    yield self._placed(found, redis)

    def _placed(self, found: tuple[Address, ...], redis: Address) -> Place:
        return Place(
            found,
            tuple(found[at] for at in self.nodes_at),
            tuple(found[at] for at in self.sessions_at),
            redis,
        )


MEMORY = Layout("memory", 1, on_redis=False)
LOCAL = Layout("node local", 1)
REMOTE = Layout("node remote", 2, nodes_at=(1,))
TWO = Layout("two instances", 2, nodes_at=(0, 1), sessions_at=(0, 1))
LAYOUTS = (MEMORY, LOCAL, REMOTE, TWO)

Say = Callable[[str], None]


def run(quick: bool, keep: bool) -> list[Table]:
    """Everything in one run, so that the figures may be compared."""
    effort = QUICK if quick else FULL
    found = {layout.name: _at_full_speed(layout, effort, print) for layout in LAYOUTS}
    figures = [
        cost_figures(found),
        operation_figures(found),
        trip_figures({layout.name: _round_trips(layout, quick) for layout in (LOCAL, REMOTE)}),
        weight_figures(_weigh(100 if quick else THOUSAND, print)),
    ]
    if keep:
        record("cluster", figures, datetime.now(UTC).date())
    return [table.drawn() for table in figures]


@dataclass(frozen=True)
class Speed:
    """A layout at full speed, and its allocations at half of that."""

    scheduler_us: float
    redis_us: float
    jobs_per_second: float
    half_p99_ms: float
    half_waited_us: float
    first_p99_ms: float | None
    """The same when instances and Redis get a core before the driver; None: not allowed here, or
    too little was left for the driver."""
    operations: dict[str, float]

    @property
    def together_us(self) -> float:
        return self.scheduler_us + self.redis_us


def _at_full_speed(layout: Layout, effort: Effort, say: Say) -> Speed:
    times = (effort.rounds, effort.seconds, effort.warm_up_seconds)
    with layout.place() as place:
        rounds = drive(FullSpeed(place, *times), list[Outcome])
        rate = median(outcome.jobs_per_second for outcome in rounds)
        # Reading the instances takes their time: not of more than a few of the jobs.
        seconds = max(effort.seconds, HALF_LOAD_SECONDS)
        at_half = Paced(place, rate / 2, effort.rounds, seconds, effort.warm_up_seconds)
        half = drive(at_half, list[Outcome])
        redis = (place.redis.pid,) if place.redis is not None else ()
        with first_in_line(*(each.pid for each in place.instances), *redis) as allowed:
            first = _if_it_keeps_up(layout, at_half, say) if allowed else []
    speed = Speed(
        median(outcome.scheduler_us for outcome in rounds),
        median(outcome.redis_us for outcome in rounds),
        rate,
        median(outcome.p99_allocation_ms for outcome in half),
        median(outcome.waited_us for outcome in half),
        median(outcome.p99_allocation_ms for outcome in first) if first else None,
        rounds[-1].operations,
    )
    say(
        f"{layout.name}: {speed.scheduler_us:.0f} us and {speed.redis_us:.0f} us in Redis a job, "
        f"{rate:,.0f} jobs/s"
    )
    return speed


def _if_it_keeps_up(layout: Layout, load: Paced, say: Say) -> list[Outcome]:
    """Nothing, where the driver, last in line, gets too little of the cores to play its nodes."""
    try:
        return drive(load, list[Outcome])
    except DriverFailed as failed:
        say(f"{layout.name}, servers first: the driver fell behind: {str(failed).splitlines()[-1]}")
        return []


def _round_trips(layout: Layout, quick: bool) -> list[float]:
    with layout.place(DELAY_MS) as place:
        waits = drive(RoundTrips(place, 3 if quick else 9), Waits)
    return [seconds * 1000 / DELAY_MS for seconds in waits.seconds]


def _weigh(count: int, say: Say) -> Weighed:
    """What a thousand weigh, reckoned from as many as are tried."""
    say(f"Redis: {count} nodes and {count} open jobs")
    with LOCAL.place() as place:
        found = drive(Weight(place, count, count), Weighed)
    return Weighed(found.nodes_bytes * THOUSAND // count, found.jobs_bytes * THOUSAND // count)


def cost_figures(found: dict[str, Speed]) -> Figures:
    figures = Figures(
        f"Full job over WebSocket, text, MessagePack, {NODES} nodes, {SESSIONS} sessions: "
        "CPU microseconds a job",
        (
            "ledger",
            "scheduler",
            "to memory",
            "Redis",
            "together",
            "jobs/s",
            "p99 at half load",
            "waited",
            "p99, servers first",
        ),
    )
    memory_us = found["memory"].scheduler_us
    for name, speed in found.items():
        figures.rows.append(
            (
                name,
                f"{speed.scheduler_us:.0f}",
                f"{speed.scheduler_us / memory_us:.1f} x",
                f"{speed.redis_us:.0f}",
                f"{speed.together_us:.0f}",
                f"{speed.jobs_per_second:,.0f}",
                f"{speed.half_p99_ms:.1f} ms",
                f"{speed.half_waited_us:.0f} us",
                "" if speed.first_p99_ms is None else f"{speed.first_p99_ms:.1f} ms",
            )
        )
    for name, most in HOLD_RATIO.items():
        ratio = found[name].scheduler_us / memory_us
        figures.notes.append(
            f"To hold, {name}: schedulers at most {most:g} x memory. "
            f"{_verdict(ratio <= most)} ({ratio:.1f} x)."
        )
    for name, most_us in HOLD_REDIS_US.items():
        redis_us = found[name].redis_us
        figures.notes.append(
            f"To hold, {name}: Redis at most {most_us} us a job. "
            f"{_verdict(redis_us <= most_us)} ({redis_us:.0f} us)."
        )
    for name, most_ms in HOLD_P99_MS.items():
        p99_ms = found[name].half_p99_ms
        figures.notes.append(
            f"To hold, {name}: p99 of allocation under {most_ms:g} ms at half load. "
            f"{_verdict(p99_ms < most_ms)} ({p99_ms:.1f} ms)."
        )
    one, two = found["node local"], found["two instances"]
    figures.notes += [
        "The p99 is read from the histogram scheduler_dispatch_latency_seconds. Waited: how long a "
        "job's instances and Redis were ready to run at half load and had no core, because the "
        "driver or another of them had it. Servers first: the p99 under the same load when "
        "instances and Redis get a core before everything else, as if each had its own; empty "
        "where too little was left for the driver.",
        f"Two instances against one: {two.jobs_per_second / one.jobs_per_second:.2f} x the jobs/s. "
        "Instances, Redis and the driver share the machine's cores, so that this does not show "
        "what two machines do; CPU a job does.",
    ]
    return figures


def operation_figures(found: dict[str, Speed]) -> Figures:
    figures = Figures(
        "Operations on Redis in a job's life, counted before batching",
        ("operation", *HOLD_OPERATIONS),
    )
    columns = [found[name].operations for name in HOLD_OPERATIONS]
    names = dict.fromkeys(name for column in columns for name in column)
    for name in names:
        counts = [column.get(name, 0.0) for column in columns]
        if max(counts) >= 0.05:
            figures.rows.append((name, *(f"{count:.2f}" for count in counts)))
    for name, most in HOLD_OPERATIONS.items():
        total = sum(found[name].operations.values())
        figures.notes.append(
            f"To hold: at most {most}. {_verdict(total <= most)}, {name} ({total:.1f})."
        )
    figures.notes += [
        "Operations of sessions (session_*) and on inboxes (post, take) are counted too. What idle "
        "instances ask for is subtracted, so that small rows may be off by a little.",
        "A node that works for longer than a moment makes one transition more.",
    ]
    return figures


def trip_figures(found: dict[str, list[float]]) -> Figures:
    figures = Figures(
        "Answers of Redis that are awaited one after another, from utterance to job_assign",
        ("ledger", "median", "least", "most"),
    )
    for name, trips in found.items():
        numbers = (median(trips), min(trips), max(trips))
        figures.rows.append((name, *(f"{number:.1f}" for number in numbers)))
        most = HOLD_ROUND_TRIPS[name]
        figures.notes.append(
            f"To hold, {name}: at most {most}. {_verdict(round(median(trips)) <= most)}."
        )
    figures.notes.append(f"Each answer comes {DELAY_MS} ms late; the wait is divided by that.")
    return figures


def weight_figures(weighed: Weighed) -> Figures:
    figures = Figures("What Redis holds", ("", "bytes", "each"))
    rows = (("nodes", weighed.nodes_bytes), ("open jobs", weighed.jobs_bytes))
    for name, size in rows:
        figures.rows.append((f"{THOUSAND:,} {name}", f"{size:,}", f"{size / THOUSAND:,.0f}"))
    held = weighed.nodes_bytes < HOLD_NODE_BYTES
    figures.notes.append(
        f"To hold: under {HOLD_NODE_BYTES / 1e6:g} MB for 1,000 nodes. {_verdict(held)}."
    )
    return figures


def _verdict(held: bool) -> str:
    return "Held here" if held else "Not held here"
