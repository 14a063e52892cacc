"""Starts clusters of several sizes one after another, and measures what a job costs in each."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import msgspec
from rich.table import Table

from benchmarks.cluster.servers import redis_cluster, redis_server
from benchmarks.full_job.figures import Figures
from benchmarks.full_job.load import Address, DriverFailed
from benchmarks.full_job.page import record
from benchmarks.full_job.servers import dragoman_server
from benchmarks.processes import cpu_seconds
from benchmarks.scale.load import GO, READY, TARGETS, ScaleLoad, ScaleOutcome

SESSIONS_PER_INSTANCE = 25
CORES_PER_DRIVER = 4
"""What a driver and the servers that it keeps busy take."""
HEARD_SECONDS = 3.0
"""Until every instance has learned of the nodes of the others."""
BUSY = 0.9
"""A process that takes more than this of a core is what limits the rest."""
HOLD_GROWTH = 1.3

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Options:
    """Sizes to try, each with each."""

    quick: bool
    keep: bool
    instances: Sequence[int] = (1, 2, 4)
    masters: Sequence[int] = (1, 3)
    nodes: Sequence[int] = (40, 400)


@dataclass(frozen=True)
class Size:
    """One cluster."""

    instances: int
    masters: int
    nodes: int


@dataclass(frozen=True)
class Measured:
    """What a cluster did, and what that took."""

    jobs_per_second: float
    scheduler_us: float
    redis_us: float
    busiest: str
    """The processes that had hardly any time left; empty when none."""


def run(options: Options) -> list[Table]:
    """A table over all sizes."""
    most = max(options.instances)
    if most > len(TARGETS):
        raise SystemExit(f"--instances goes up to {len(TARGETS)}; {most} was asked for.")
    cores = os.cpu_count() or 1
    drivers = max(1, cores // CORES_PER_DRIVER)
    print(f"{cores} cores, {drivers} driver{'s' if drivers > 1 else ''}")
    found: dict[Size, Measured] = {}
    for masters, nodes, instances in product(options.masters, options.nodes, options.instances):
        size = Size(instances, masters, nodes)
        found[size] = measured = _measure(size, drivers, options.quick)
        print(
            f"{instances} instances, {masters} masters, {nodes} nodes: "
            f"{measured.jobs_per_second:,.0f} jobs/s, {measured.scheduler_us:.0f} us a job, "
            f"{measured.redis_us:.0f} us in Redis"
        )
    figures = _figures(found)
    if options.keep:
        record("scale", [figures], datetime.now(UTC).date())
    return [figures.drawn()]


def _measure(size: Size, drivers: int, quick: bool) -> Measured:
    warm_up_seconds, seconds = (1.0, 2.0) if quick else (3.0, 8.0)
    with ExitStack() as stack:
        settings = {
            "DRAGOMAN_LAB__ENABLED": "false",
            "DRAGOMAN_CLUSTER__ENABLED": "true",
            "DRAGOMAN_SCHEDULER__SELECTION__PREFER_LOCAL": "false",
        }
        if size.masters == 1:
            redis: tuple[Address, ...] = (stack.enter_context(redis_server()),)
        else:
            redis = stack.enter_context(redis_cluster(size.masters))
            settings["DRAGOMAN_CLUSTER__REDIS_CLUSTER"] = "true"
        settings["DRAGOMAN_CLUSTER__REDIS_URL"] = f"redis://127.0.0.1:{redis[0].port}"
        servers = [stack.enter_context(dragoman_server(**settings)) for _ in range(size.instances)]
        ports = tuple(server.port for server in servers)
        sessions = SESSIONS_PER_INSTANCE * size.instances
        shares = [
            ScaleLoad(
                ports,
                tuple(range(driver, size.nodes, drivers)),
                tuple(range(driver, sessions, drivers)),
                warm_up_seconds,
                seconds,
            )
            for driver in range(drivers)
        ]
        with _driving(shares) as processes:
            time.sleep(HEARD_SECONDS)
            for process in processes:
                _tell(process, GO)
            time.sleep(warm_up_seconds)
            began, before = time.monotonic(), _cpu(servers, redis)
            time.sleep(seconds)
            took, after = time.monotonic() - began, _cpu(servers, redis)
            outcomes = [_outcome(process) for process in processes]
    used = {name: after[name] - before[name] for name in after}
    for number, outcome in enumerate(outcomes):
        # Drivers count in their own time, which is as long.
        used[f"driver {number + 1}"] = outcome.driver_cpu_seconds * took / outcome.seconds
    rate = sum(outcome.jobs / outcome.seconds for outcome in outcomes)
    jobs = max(1.0, rate * took)
    return Measured(
        rate,
        sum(cpu for name, cpu in used.items() if name.startswith("instance")) * 1e6 / jobs,
        sum(cpu for name, cpu in used.items() if name.startswith("master")) * 1e6 / jobs,
        ", ".join(name for name, cpu in used.items() if cpu / took > BUSY),
    )


def _cpu(servers: Sequence[Address], redis: Sequence[Address]) -> dict[str, float]:
    named = [(f"instance {number + 1}", server) for number, server in enumerate(servers)]
    named += [(f"master {number + 1}", server) for number, server in enumerate(redis)]
    return {name: cpu_seconds(server.pid) for name, server in named}


@contextmanager
def _driving(shares: Sequence[ScaleLoad]) -> Iterator[list[subprocess.Popen[str]]]:
    """Drivers that are connected and wait for the word."""
    with ExitStack() as stack:
        problems = stack.enter_context(tempfile.TemporaryFile("w+"))
        processes = []
        for share in shares:
            command = [sys.executable, "-m", "benchmarks.scale.driver"]
            process = subprocess.Popen(
                [*command, msgspec.json.encode(share).decode()],
                cwd=_ROOT,
                env={**os.environ, "PYTHONPATH": str(_ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=problems,
                text=True,
            )
            stack.callback(_end, process)
            processes.append(process)
        for process in processes:
            if _said(process) != READY:
                problems.seek(0)
                raise DriverFailed(problems.read().strip() or "a driver ended before it began")
        yield processes


def _tell(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()


def _said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _outcome(process: subprocess.Popen[str]) -> ScaleOutcome:
    said = _said(process)
    if not said:
        raise DriverFailed("a driver ended before it had measured: a job or a socket failed")
    return msgspec.json.decode(said, type=ScaleOutcome)


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def _figures(found: dict[Size, Measured]) -> Figures:
    figures = Figures(
        "A cluster that grows: CPU microseconds a job; half of the jobs go to another instance",
        (
            *("instances", "Redis masters", "nodes", "jobs/s", "schedulers", "Redis"),
            *("against 2 instances", "at its limit"),
        ),
    )
    missed = []
    for size, measured in found.items():
        two = found.get(Size(2, size.masters, size.nodes))
        growth = ""
        if two is not None and size.instances >= 2:
            ratio = _cost(measured) / _cost(two)
            growth = f"{ratio:.2f} x"
            if ratio > HOLD_GROWTH:
                missed.append(f"{size.instances} instances, {size.nodes} nodes: {growth}")
        figures.rows.append(
            (
                *(f"{size.instances}", f"{size.masters}", f"{size.nodes}"),
                f"{measured.jobs_per_second:,.0f}",
                f"{measured.scheduler_us:.0f}",
                f"{measured.redis_us:.0f}",
                growth,
                measured.busiest,
            )
        )
    verdict = f"Not held here ({'; '.join(missed)})." if missed else "Held here."
    figures.notes.append(
        f"To hold: a job costs at most {HOLD_GROWTH} x as much as with two instances. {verdict}"
    )
    figures.notes.append(
        "Where a driver is at its limit, jobs/s is what the driver can do. Where processes share "
        "cores, jobs/s does not show what machines of their own would do; CPU a job does."
    )
    return figures


def _cost(measured: Measured) -> float:
    return measured.scheduler_us + measured.redis_us
