"""The live plane beside a busy experiment in the same `serve`: does a speaker notice?

Utterances come at an even pace to nodes that answer at once. Rounds with an experiment that keeps
the lab busy, and without one, take turns on one server, so that both see the same machine.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.full_job.figures import Figures
from benchmarks.full_job.frames import DragomanFrames
from benchmarks.full_job.nodes import open_nodes
from benchmarks.full_job.servers import dragoman_server
from benchmarks.full_job.sessions import QuietSession, Session, connect_sessions
from benchmarks.full_job.tally import Tally
from benchmarks.lab.measuring import CONCURRENCY

UTTERANCES_PER_SECOND = 100
SESSIONS = 20
ITEMS = 200_000
"""More than a round can carry out."""

_HISTOGRAM = "scheduler_dispatch_latency_seconds"
_SHARES = (0.5, 0.95, 0.99)
_PATIENCE_SECONDS = 60.0
_LOOK_SECONDS = 0.2
_SETTLE_SECONDS = 2.0
"""For the last utterances to come back."""


class TimedSession(QuietSession):
    """A client that takes the time from each utterance to its translation."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.round_trips_ms: list[float] = []
        self._spoken_at: deque[float] = deque()

    def speak(self) -> None:
        self._spoken_at.append(time.perf_counter())
        super().speak()

    def answered(self) -> None:
        # Translations come in the order of the utterances.
        self.round_trips_ms.append((time.perf_counter() - self._spoken_at.popleft()) * 1000)


class Experiment:
    """An experiment on the server that can be kept busy and be stopped."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._path = ""
        self.items = 0

    async def make(self, items: int) -> None:
        rows = "".join(f'{{"text": "sentence {number}"}}\n' for number in range(items))
        imported = await self._client.post(
            "/datasets",
            data={"name": "rows", "format": "jsonl"},
            files={"file": ("rows.jsonl", rows.encode())},
        )
        imported.raise_for_status()
        order = {
            "name": "busy",
            "dataset_version_id": imported.json()["version_id"],
            "target": {"kind": "recorded", "output": "text"},
            "evaluators": [{"kind": "exact", "reference": "text"}],
            "concurrency": CONCURRENCY,
        }
        made = await self._client.post("/experiments", json=order)
        made.raise_for_status()
        self._path = f"/experiments/{made.json()['experiment_id']}"

    async def start(self) -> None:
        begun = await self._client.post(f"{self._path}/runs", json={"mode": "retry_all"})
        begun.raise_for_status()
        await self._until(lambda shown: shown["stats"]["success"] > 0)

    async def stop(self) -> None:
        shown = (await self._client.get(self._path)).json()
        if shown["status"] != "processing":
            raise RuntimeError(f"The experiment was not busy all the time: {shown['status']}")
        self.items += shown["stats"]["success"]
        (await self._client.post(f"{self._path}/kill")).raise_for_status()
        await self._until(lambda shown: shown["status"] == "terminated")

    async def _until(self, is_so: Callable[[dict[str, Any]], bool]) -> None:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while True:
                shown = await self._client.get(self._path)
                if is_so(shown.json()):
                    return
                await asyncio.sleep(_LOOK_SECONDS)


class Round:
    """What was seen while there was an experiment, or while there was none."""

    def __init__(self) -> None:
        self.round_trips_ms: list[float] = []
        self.dispatched: dict[float, float] = {}
        """How many jobs reached their node within so many seconds, by the server's count."""

    def add(self, round_trips_ms: list[float], before: Counted, after: Counted) -> None:
        self.round_trips_ms += round_trips_ms
        for bound, count in after.items():
            self.dispatched[bound] = self.dispatched.get(bound, 0) + count - before[bound]

    def row(self, name: str) -> tuple[str, ...]:
        ordered = sorted(self.round_trips_ms)
        trips = (f"{ordered[int(len(ordered) * share)]:.1f} ms" for share in _SHARES)
        within = (f"{self._dispatched_ms(share):g} ms" for share in _SHARES)
        return (name, f"{len(ordered):,}", *trips, *within)

    def _dispatched_ms(self, share: float) -> float:
        """The least bound that so large a share of the jobs stayed within."""
        most = max(self.dispatched.values())
        return 1000 * min(b for b, count in self.dispatched.items() if count >= share * most)


Counted = dict[float, float]


async def _dispatch_counts(client: httpx.AsyncClient, port: int) -> Counted:
    shown = await client.get(f"http://127.0.0.1:{port}/metrics")
    for family in text_string_to_metric_families(shown.text):
        if family.name == _HISTOGRAM:
            return {
                float(sample.labels["le"]): sample.value
                for sample in family.samples
                if sample.name.endswith("_bucket")
            }
    raise RuntimeError(f"The server does not tell {_HISTOGRAM}.")


async def _speak(sessions: list[Session], seconds: float) -> list[float]:
    """Utterances at an even pace, and how long each took to come back."""
    timed = [session for session in sessions if isinstance(session, TimedSession)]
    for session in timed:
        session.round_trips_ms.clear()
    spoken, began = 0, time.perf_counter()
    while (due_at := began + spoken / UTTERANCES_PER_SECOND) < began + seconds:
        await asyncio.sleep(max(0.0, due_at - time.perf_counter()))
        timed[spoken % len(timed)].speak()
        spoken += 1
    await asyncio.sleep(_SETTLE_SECONDS)
    found = [ms for session in timed for ms in session.round_trips_ms]
    if len(found) < spoken:
        raise RuntimeError(f"Only {len(found)} of {spoken} utterances came back.")
    return found


async def _measure(port: int, rounds: int, seconds: float, items: int) -> Figures:
    calm, busy, tally = Round(), Round(), Tally()
    frames = DragomanFrames(binary=True, audio_bytes=0)
    api = f"http://127.0.0.1:{port}/api/v1"
    async with httpx.AsyncClient(base_url=api, timeout=_PATIENCE_SECONDS) as client:
        experiment = Experiment(client)
        await experiment.make(items)
        await open_nodes(port, frames, tally)
        sessions = await connect_sessions(port, frames, tally, range(SESSIONS), TimedSession)
        try:
            await _speak(sessions, 1.0)  # what is slow only once is not of interest
            for _ in range(rounds):
                for seen in (calm, busy):
                    if seen is busy:
                        await experiment.start()
                    before = await _dispatch_counts(client, port)
                    trips = await _speak(sessions, seconds)
                    seen.add(trips, before, await _dispatch_counts(client, port))
                    if seen is busy:
                        await experiment.stop()
        finally:
            tally.close()
    figures = Figures(
        f"Live plane beside an experiment in the same serve, {UTTERANCES_PER_SECOND} utterances a "
        "second",
        ("", "jobs", *("there and back p50", "p95", "p99"), *("dispatch p50 within", "p95", "p99")),
        [calm.row("no experiment"), busy.row(f"an experiment, {CONCURRENCY} items at once")],
    )
    figures.notes.append(
        f"There and back: from an utterance to its translation, as the client sees it, on the "
        f"clock. Dispatch: from a job's claim to its node, by the server's histogram. In its "
        f"rounds the experiment carried out {experiment.items:,} items. To hold: unchanged."
    )
    return figures


def live_figures(quick: bool) -> Figures:
    rounds, seconds, items = (1, 3.0, 20_000) if quick else (4, 8.0, ITEMS)
    with dragoman_server() as server:
        return asyncio.run(_measure(server.port, rounds, seconds, items))
