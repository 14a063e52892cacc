"""One scenario played twice: by real processes over real sockets, and by the simulation.

Runs before and after it, shorter and with other draws, tell how long work and messages take here:
two, because a shared machine grows slower and quicker by the minute. The simulation gets those
times and the scenario, and must foretell the run between them.

Utterances are long and few, 45 a second, so that the processes have time to spare and what is
compared is the scheduling. Where the machine was still too busy, the verdict says so: clients that
woke late, or a first and a last run that do not agree with each other.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import fmean

import msgspec
from rich.table import Table

from benchmarks.full_job.servers import dragoman_server
from benchmarks.processes import running
from dragoman.sdk import Missing, SessionClient
from dragoman.simulation import (
    Exponential,
    Fixed,
    FleetGroup,
    InputKind,
    Measured,
    Scenario,
    Traffic,
    simulate,
)

NODES, SLOTS = 20, 4
SESSIONS = 200
SERVICE_MS = 1_500.0
LOAD = 0.85
GAP_SECONDS = SESSIONS * SERVICE_MS / 1000 / (LOAD * NODES * SLOTS)
"""Between two utterances of a session."""
PENDING_SECONDS = 0.2
MOST_OFF_SHARE = 0.005
"""Half a point of refusals."""
MOST_OFF = 0.10
"""A tenth of each percentile."""
MOST_LATE_MS = 50.0
"""Where clients wake later than this, the machine is what is measured."""
_SIMULATED_RUNS = 5
_LOOK_SECONDS = 0.05


class Heard(msgspec.Struct):
    """What clients heard in one run, in milliseconds."""

    refused: int = 0
    totals_ms: list[float] = []
    waits_ms: list[float] = []
    node_ms: list[float] = []
    late_ms: list[float] = []
    """How late the clients' process woke, again and again."""

    @property
    def refused_share(self) -> float:
        return self.refused / max(1, self.refused + len(self.totals_ms))


@dataclass
class Speaking:
    """Sessions over real sockets."""

    url: str
    seconds: float
    seed: int
    heard: Heard = field(default_factory=Heard)
    _all_here: asyncio.Barrier = field(default_factory=lambda: asyncio.Barrier(SESSIONS))

    async def play(self) -> Heard:
        looking = asyncio.create_task(self._look())
        await asyncio.gather(*(self._speak(number) for number in range(SESSIONS)))
        looking.cancel()
        return self.heard

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LOOK_SECONDS
            await asyncio.sleep(_LOOK_SECONDS)
            self.heard.late_ms.append(1000 * (loop.time() - due))

    async def _speak(self, number: int) -> None:
        random = Random(f"{self.seed}/{number}")
        loop = asyncio.get_running_loop()
        async with SessionClient(self.url, src_lang="en", tgt_lang="es") as session:
            said: dict[int, float] = {}
            hearing = loop.create_task(self._hear(session, said))
            # All begin together, as in the simulation; connecting is not what is compared.
            await self._all_here.wait()
            until = loop.time() + self.seconds
            index = 0
            due = loop.time() + random.expovariate(1 / GAP_SECONDS)
            while due < until:
                await asyncio.sleep(due - loop.time())
                said[index] = loop.time()
                await session.say("so much for the text of an utterance")
                index += 1
                due += random.expovariate(1 / GAP_SECONDS)
            await session.close()
            await hearing

    async def _hear(self, session: SessionClient, said: dict[int, float]) -> None:
        loop = asyncio.get_running_loop()
        async for result in session.results():
            if isinstance(result, Missing):
                self.heard.refused += 1
                continue
            took = loop.time() - said[result.utterance_index]
            self.heard.totals_ms.append(1000 * took)
            self.heard.waits_ms.append(result.scheduling.queued_ms)
            self.heard.node_ms.append(result.scheduling.node_ms)


def real(seconds: float, seed: int) -> Heard:
    """Server, nodes and clients in processes of their own, for so many seconds."""
    pending = {"DRAGOMAN_SCHEDULER__JOB_TIMEOUT__PENDING_SECONDS": str(PENDING_SECONDS)}
    with dragoman_server(log_level="error", **pending) as address:
        url = f"ws://127.0.0.1:{address.port}"
        command = [sys.executable, "-m", "benchmarks.simulation.real_nodes", url, str(seed)]
        with running(command) as nodes:
            assert nodes.stdout is not None
            assert nodes.stdout.readline().strip() == "ready"
            return asyncio.run(Speaking(url, seconds, seed).play())


def simulated(calibration: Heard, seconds: float) -> list[Heard]:
    """The same scenario, with the times that the other run showed."""
    work = calibration.node_ms
    spent = fmean(calibration.totals_ms) - fmean(calibration.waits_ms) - fmean(work)
    scenario = Scenario(
        duration_seconds=seconds,
        warmup_seconds=0,
        # A message goes four ways: to the scheduler, to the node, and back.
        link_ms=Fixed(max(0.0, spent / 4)),
        fleet=(FleetGroup(nodes=NODES, slots=SLOTS, service_ms=Measured.of_samples(work)),),
        traffic=(
            Traffic(
                sessions=SESSIONS,
                input=InputKind.TEXT,
                utterance_ms=Fixed(0),
                pause_ms=Exponential(1000 * GAP_SECONDS),
            ),
        ),
        settings={"scheduler.job_timeout.pending_seconds": PENDING_SECONDS},
    )
    runs = simulate(scenario, seeds=range(_SIMULATED_RUNS))
    return [
        Heard(
            refused=run.whole.refused,
            totals_ms=[run.whole.total_ms.p50, run.whole.total_ms.p95, run.whole.total_ms.p99],
            waits_ms=[float(run.whole.served)],
        )
        for run in runs
    ]


def reality(seconds: float, calibration_seconds: float) -> Table:
    """Both, side by side."""
    before = real(calibration_seconds, seed=1)
    lived = real(seconds, seed=2)
    after = real(calibration_seconds, seed=3)
    calibration = Heard(
        totals_ms=before.totals_ms + after.totals_ms,
        waits_ms=before.waits_ms + after.waits_ms,
        node_ms=before.node_ms + after.node_ms,
    )
    foretold = simulated(calibration, seconds)
    jobs = len(lived.totals_ms) + lived.refused
    table = Table(
        "figure", "real", "simulated", "off", "allowed",
        title=f"Real processes and simulation: {jobs:,} utterances, {NODES} nodes x {SLOTS} slots,"
        f" {LOAD:.0%} load",
    )  # fmt: skip
    refused = fmean(run.refused / (run.refused + run.waits_ms[0]) for run in foretold)
    off = refused - lived.refused_share
    held = abs(off) <= MOST_OFF_SHARE
    table.add_row(
        "refused",
        f"{lived.refused_share:.2%}",
        f"{refused:.2%}",
        f"{100 * off:+.2f} points",
        f"{100 * MOST_OFF_SHARE:.1f}",
    )
    for number, share in enumerate((0.50, 0.95, 0.99)):
        ours = fmean(run.totals_ms[number] for run in foretold)
        theirs = percentile(lived.totals_ms, share)
        held = held and abs(ours / theirs - 1) <= MOST_OFF
        table.add_row(
            f"p{share * 100:.0f} of end to end",
            f"{theirs:.0f} ms",
            f"{ours:.0f} ms",
            f"{ours / theirs - 1:+.1%}",
            f"{MOST_OFF:.0%}",
        )
    table.caption = " ".join([_verdict(held), *_doubts(before, lived, after)])
    table.caption_justify = "left"
    return table


def _verdict(held: bool) -> str:
    return "HELD: every figure is within what is allowed." if held else "NOT HELD: see `off`."


def _doubts(before: Heard, lived: Heard, after: Heard) -> list[str]:
    """What the machine did that no simulation can foretell."""
    late = max(percentile(run.late_ms, 0.99) for run in (before, lived, after))
    means = [fmean(run.node_ms) for run in (before, after)]
    drift = max(means) / min(means) - 1
    doubts = [f"Clients woke up to {late:.0f} ms late (p99)."]
    if late > MOST_LATE_MS:
        doubts.append(
            f"Over {MOST_LATE_MS:g} ms other programs had the cores, and the figures are theirs: "
            "repeat it where nothing else runs."
        )
    if drift > MOST_OFF / 2:
        doubts.append(f"Work took {drift:.0%} longer in one of the outer runs than in the other.")
    return doubts


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0
