"""An experiment on the nodes that serve live traffic, in real processes: does live work notice?

Twenty nodes with four slots each serve live jobs at 70 % of their slots. The same load runs alone,
beside an experiment whose target is that fleet, and alone again, so that a machine that grows
slower or quicker meanwhile shows. After the second round the live load is more than the fleet has
slots for a while.

What is to be seen is how slots are given out, not how quick the machine is. So jobs are long and
few: 80 slots are held by fourteen live jobs a second. How late the nodes' own process wakes is
shown, and past a bound the figures are called what they are: those of a machine with other work.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from random import Random
from typing import Any

import httpx
from rich.table import Table

from benchmarks.full_job.comparison import verdict
from benchmarks.full_job.figures import Figures
from benchmarks.full_job.page import record
from benchmarks.full_job.servers import dragoman_server
from dragoman.errors import DragomanError
from dragoman.sdk import (
    Answer,
    Job,
    JobClass,
    JobRequest,
    JobsClient,
    Node,
    Outcome,
    ResourceUsage,
)

NODES, SLOTS_A_NODE = 20, 4
SLOTS = NODES * SLOTS_A_NODE
HEADROOM = 0.25
LIVE_LOAD, PEAK_LOAD = 0.7, 1.2
LIVE_SECONDS, ITEM_SECONDS = 4.0, 2.0
ITEMS, CONCURRENCY = 2_000, 64
CANCEL_GRACE_MS = 5_000
LEAST_USED = 0.9
MOST_LATE_MS = 50.0
"""Where the nodes' process is later than this, the machine is what is measured."""
_SAME_TIMES, _SAME_MS = 1.5, 2.0
"""A p99 within so many times of another, or so many milliseconds, is unchanged."""

_IDLE = ResourceUsage(cpu_percent=1.0, mem_percent=1.0)
_LOOK_SECONDS = 0.05
_SETTLE_SECONDS = 3 * LIVE_SECONDS
"""By then the fleet is as full as the load makes it."""
_PATIENCE_SECONDS = 600.0
_LONGEST_MEANS = 4
"""Jobs take no longer than so many times the mean: none is to run out of time."""


class Fleet:
    """Nodes in this process, which count what they run."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._serving: list[asyncio.Task[None]] = []
        self.running: Counter[JobClass] = Counter()
        self.samples: list[tuple[int, int]] = []
        """Slots of live work, slots of the experiment."""
        self.late_ms: list[float] = []

    async def _work(self, job: Job) -> Answer:
        mean = ITEM_SECONDS if job.job_class is JobClass.BATCH else LIVE_SECONDS
        self.running[job.job_class] += 1
        try:
            drawn = Random(job.text).expovariate(1 / mean)
            await asyncio.sleep(min(drawn, _LONGEST_MEANS * mean))
        finally:
            self.running[job.job_class] -= 1
        return Answer(text_translated=job.text)

    async def __aenter__(self) -> Fleet:
        for number in range(NODES):
            node = Node(
                self._url,
                work=self._work,
                nmt=["en", "es"],
                slots=SLOTS_A_NODE,
                node_id=f"bench-{number}",
                usage=lambda: _IDLE,
                drain_seconds=0.1,
            )
            self._serving.append(asyncio.create_task(node.serve()))
        self._serving.append(asyncio.create_task(self._look()))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _look(self) -> None:
        """Look at the slots again and again, and at how late this process itself is."""
        while True:
            due_at = time.perf_counter() + _LOOK_SECONDS
            self.samples.append((self.running[JobClass.LIVE], self.running[JobClass.BATCH]))
            await asyncio.sleep(_LOOK_SECONDS)
            self.late_ms.append((time.perf_counter() - due_at) * 1000)

    def late(self) -> float:
        """How many milliseconds late this process was at most, but for one look in a hundred; then
        forgotten."""
        ordered, self.late_ms = sorted(self.late_ms), []
        return ordered[int(len(ordered) * 0.99)] if ordered else 0.0

    def share_used(self, seconds: float) -> float:
        """How much of what live work left free, less the headroom, the experiment used in the
        first seconds that were looked at: later the last jobs of the round end."""
        kept = int(SLOTS * HEADROOM)
        samples = self.samples[: int(seconds / _LOOK_SECONDS)]
        allowed = [max(0, SLOTS - live - kept) for live, _ in samples]
        used = [min(most, batch) for most, (_, batch) in zip(allowed, samples, strict=True)]
        return sum(used) / max(1, sum(allowed))


class LiveLoad:
    """Live jobs at random times, each asked for without waiting for a slot."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.queued_ms: list[float] = []
        self.refused = 0
        self.longest_ms = 0.0
        """That a job waited for its node, also while the fleet filled."""

    async def run(
        self, seconds: float, load: float, seed: int, on_settled: Callable[[], object] = int
    ) -> None:
        """Ask for so many seconds, after the time in which the fleet fills; that is not counted."""
        random = Random(seed)
        began = time.perf_counter()
        due = 0.0
        asked: list[asyncio.Task[None]] = []
        settled = asyncio.get_running_loop().call_later(_SETTLE_SECONDS, on_settled)
        async with JobsClient(self._url) as jobs:
            while due < _SETTLE_SECONDS + seconds:
                due += random.expovariate(load * SLOTS / LIVE_SECONDS)
                await asyncio.sleep(max(0.0, began + due - time.perf_counter()))
                text = f"{seed}/{len(asked)}"
                counts = due >= _SETTLE_SECONDS
                asked.append(asyncio.create_task(self._ask(jobs, text, counts=counts)))
            await asyncio.gather(*asked)
        settled.cancel()

    async def _ask(self, jobs: JobsClient, text: str, *, counts: bool) -> None:
        try:
            view = await jobs.run(JobRequest(src_lang="en", tgt_lang="es", text=text))
        except DragomanError:
            self.refused += counts
            return
        if view.outcome is not Outcome.SUCCESS or view.scheduling is None:
            raise RuntimeError(f"A live job failed: {view.error}")
        self.longest_ms = max(self.longest_ms, view.scheduling.queued_ms)
        if counts:
            self.queued_ms.append(view.scheduling.queued_ms)

    def queued(self, share: float) -> float:
        """So large a share of the jobs waited no longer, in milliseconds."""
        ordered = sorted(self.queued_ms) or [0.0]
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]

    def row(self, name: str, late_ms: float, used: str = "") -> tuple[str, ...]:
        found = (f"{ms:g} ms" for ms in (self.queued(0.5), self.queued(0.99), self.longest_ms))
        served = len(self.queued_ms)
        return (name, f"{served:,}", f"{self.refused:,}", *found, used, f"{late_ms:.0f} ms")


class Experiment:
    """An experiment of the server's own lab on the server's own fleet."""

    def __init__(self, client: httpx.AsyncClient, items: int) -> None:
        self._client = client
        self._items = items

    async def run(self) -> dict[str, Any]:
        """What became of it; raises unless every item was carried out once, and well."""
        rows = "".join(f'{{"source": "item {number}"}}\n' for number in range(self._items))
        imported = await self._client.post(
            "/datasets", data={"name": "rows"}, files={"file": ("rows.jsonl", rows.encode())}
        )
        imported.raise_for_status()
        order = {
            "name": "on the fleet",
            "dataset_version_id": imported.json()["version_id"],
            "target": {"kind": "fleet", "src_lang": "en", "tgt_lang": "es"},
            "evaluators": [{"kind": "exact", "reference": "source"}],
            "concurrency": CONCURRENCY,
        }
        started = await self._client.post("/experiments/submit", json=order)
        started.raise_for_status()
        path = f"/experiments/{started.json()['experiment_id']}"
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while True:
                shown: dict[str, Any] = (await self._client.get(path)).json()
                if shown["status"] not in ("pending", "processing"):
                    break
                await asyncio.sleep(0.2)
        scores = (await self._client.get(f"{path}/aggregates")).json()["scores"]["exact"]
        if shown["stats"]["success"] != self._items or scores["count"] != self._items:
            raise RuntimeError(f"Not every item was carried out once and well: {shown['stats']}")
        return shown


async def _measure(port: int, seconds: float, items: int) -> Figures:
    url = f"http://127.0.0.1:{port}"
    alone, beside, peak, after = (LiveLoad(url) for _ in range(4))
    async with AsyncExitStack() as stack:
        fleet = await stack.enter_async_context(Fleet(url))
        client = await stack.enter_async_context(
            httpx.AsyncClient(base_url=f"{url}/api/v1", timeout=_PATIENCE_SECONDS)
        )
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while not (await client.get("/pools")).json()["items"]:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        await LiveLoad(url).run(1.0, LIVE_LOAD, seed=0)  # what is slow only once
        fleet.late()
        await alone.run(seconds, LIVE_LOAD, seed=1)
        late = [fleet.late()]
        experiment = asyncio.create_task(Experiment(client, items).run())
        await beside.run(seconds, LIVE_LOAD, seed=1, on_settled=fleet.samples.clear)
        share = fleet.share_used(seconds)
        late.append(fleet.late())
        await peak.run(min(30.0, seconds), PEAK_LOAD, seed=2)
        late.append(fleet.late())
        await experiment
        fleet.late()
        await after.run(seconds, LIVE_LOAD, seed=1)
        late.append(fleet.late())
    kept = f"{share:.0%}"
    figures = Figures(
        f"Live jobs on {NODES} nodes with {SLOTS_A_NODE} slots, and an experiment of {items:,} "
        "items on the same nodes",
        ("", "jobs", "refused", "dispatch p50", "p99", "longest", "free slots used", "late p99"),
        [
            alone.row(f"{LIVE_LOAD:.0%} load, no experiment", late[0]),
            beside.row(f"{LIVE_LOAD:.0%} load, the experiment", late[1], kept),
            peak.row(f"{PEAK_LOAD:.0%} load, the experiment", late[2]),
            after.row(f"{LIVE_LOAD:.0%} load, no experiment again", late[3]),
        ],
    )
    figures.notes.append(
        "Dispatch: from a live job's claim to its node, by the server's clock. Free slots: those "
        "that live work and the headroom leave. Late: how late the nodes' own process was, on a "
        "machine with other work. Every item was carried out once and well. To hold: "
        "refused and p99 unchanged, at least 90 % used, the longest within cancel_grace."
    )
    figures.notes += _verdicts(alone, beside, after, peak, share)
    if max(late) > MOST_LATE_MS:
        figures.notes.append(
            f"The nodes' process was up to {max(late):.0f} ms late: other programs had the cores, "
            f"and the figures are theirs. Run it where nothing else does (under {MOST_LATE_MS:g})."
        )
    return figures


def _verdicts(
    alone: LiveLoad, beside: LiveLoad, after: LiveLoad, peak: LiveLoad, share: float
) -> list[str]:
    """Each thing to hold, and whether it was."""
    # The same jobs came in all three rounds; refusals are few, and vary as rare things do.
    most_refused = max(alone.refused, after.refused)
    bound = most_refused + 3 * math.sqrt(most_refused + 1)
    p99 = max(alone.queued(0.99), after.queued(0.99))
    allowed_ms = max(p99 * _SAME_TIMES, p99 + _SAME_MS)
    return [
        f"Refused: {beside.refused} against {alone.refused} and {after.refused} of the same jobs "
        f"(at most {bound:.0f}). {verdict(beside.refused <= bound)}.",
        f"p99: {beside.queued(0.99):g} ms, at most {allowed_ms:g} ms. "
        f"{verdict(beside.queued(0.99) <= allowed_ms)}.",
        f"Free slots used: {share:.0%}, at least {LEAST_USED:.0%}. {verdict(share >= LEAST_USED)}.",
        f"Longest wait for batch work to give way: {peak.longest_ms:g} ms, at most "
        f"{CANCEL_GRACE_MS} ms. {verdict(peak.longest_ms <= CANCEL_GRACE_MS)}.",
    ]


def run(quick: bool, recorded: bool) -> list[Table]:
    """All of it: about six minutes, most of which the jobs sleep."""
    seconds, items = (8.0, 300) if quick else (40.0, ITEMS)
    with dragoman_server() as server:
        figures = asyncio.run(_measure(server.port, seconds, items))
    if recorded:
        record("on_the_fleet", [figures], datetime.now(UTC).date())
    return [figures.drawn()]
