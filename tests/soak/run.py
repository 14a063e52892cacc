"""A soak of one server: waves of load, a rest after each, and a reading when all is at rest.

At rest everything that a stated retention keeps is gone, so that what is left must not grow.
"""

from __future__ import annotations

import asyncio
import json
import os
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from time import monotonic
from types import TracebackType
from typing import Any, Self

import httpx
from benchmarks.processes import cpu_seconds, family
from tests.soak.callers import Caller
from tests.soak.experimenters import KEPT_EXPERIMENTS, Experimenter
from tests.soak.faults import Trouble
from tests.soak.laws import Laws
from tests.soak.nodes import HonestNode, LyingNode
from tests.soak.readings import Reader, Reading
from tests.soak.server import EXPLANATIONS, RETENTION_SECONDS, Backend, Kind
from tests.soak.speakers import Speaker
from tests.soak.verdict import Trend, over_base, trends

_HONEST_NODES = 4
_LYING_NODES = 3
_SPEAKERS = 6
_CALLERS = 3
_READ_SECONDS = 2.0
_REST_MARGIN_SECONDS = 3.0
"""A rest outlasts what is kept for a time by so much."""
_REST_PATIENCE_SECONDS = 5.0
_LAST_REST_PATIENCE_SECONDS = 60.0
"""How long after that a count may take to return to its base; the last time, it must."""
_COLLECTOR_SECONDS = 16.0
"""How long a process takes at most to look for what it can free; see `dragoman.collector`."""
_LONG_SECONDS = 600.0
"""From here on a soak judges memory, and waits for the collector in each rest."""
_WARM_UP_SECONDS = 6.0
_CYCLE_SECONDS = 60.0
"""A wave and its rest."""


def retention(grace_seconds: float) -> str:
    """What is kept for a time or by number; each rest outlasts the times."""
    return (
        f"finished jobs and their bindings {RETENTION_SECONDS} s, sessions without a client "
        f"{grace_seconds} s, offline nodes {RETENTION_SECONDS} s, the last {EXPLANATIONS} "
        f"explanations, the last {KEPT_EXPERIMENTS} experiments over recorded outputs"
    )


Tell = Callable[[str], None]


@dataclass
class Report:
    """What a soak found."""

    name: str
    seed: int
    seconds: float
    kept: str
    base: Reading | None = None
    at_rest: list[Reading] = field(default_factory=list)
    under_load: list[Reading] = field(default_factory=list)
    trends: list[Trend] = field(default_factory=list)
    not_returned: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Counts that the last rest did not bring back to the base: the base, and what is left."""
    breaches: list[str] = field(default_factory=list)
    breach_count: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    log_errors: list[str] = field(default_factory=list)
    log_events: dict[str, int] = field(default_factory=dict)
    exit_codes: list[int] = field(default_factory=list)
    cpu_share: float = 0.0
    """Of one core, for the server with its lab."""
    load_cpu_share: float = 0.0
    """Of one core, for the process that makes the load."""

    @property
    def failures(self) -> list[str]:
        """Why the soak is not passed; empty when it is."""
        found = [f"law broken: {breach}" for breach in self.breaches]
        found += [f"in the server's log: {line}" for line in self.log_errors]
        found += [
            f"{name}: {now} at rest, {base} at the base"
            for name, (base, now) in self.not_returned.items()
        ]
        found += [
            f"{trend.name} grows by {trend.share:.1%} of {trend.level:.0f} in 24 hours"
            for trend in self.trends
            if not trend.is_flat
        ]
        found += [f"a server ended with exit code {code}" for code in self.exit_codes if code]
        return found

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "failures": self.failures}


class Soak:
    """A server or a cluster with its load. As a context, it leaves nothing behind."""

    def __init__(self, kind: Kind, folder: Path, seed: int, tell: Tell) -> None:
        self._kind = kind
        self._folder = folder
        self._seed = seed
        self._random = Random(f"{seed} {kind}")
        self._tell = tell
        self._laws = Laws()
        self._open = AsyncExitStack()
        self._people = 0
        self._is_long = False

    async def __aenter__(self) -> Self:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            loop = asyncio.get_running_loop()
            self._backend = await loop.run_in_executor(None, Backend, self._folder, self._kind)
            self._open.callback(self._backend.end)
            url = self._backend.url
            self._url = url
            grace_seconds = self._backend.grace_seconds
            self._rest_seconds = RETENTION_SECONDS + grace_seconds + _REST_MARGIN_SECONDS
            self.report = Report(self._kind, self._seed, seconds=0.0, kept=retention(grace_seconds))
            self._http = await self._open.enter_async_context(
                httpx.AsyncClient(
                    base_url=f"{url}/api/v1",
                    timeout=60,
                    trust_env=False,
                    # The server closes idle connections after 5 s; whoever is first must be sure.
                    limits=httpx.Limits(keepalive_expiry=1.0),
                )
            )
            self._reader = Reader(self._backend, self._http)
            self._experimenter = (
                Experimenter(self._http, url, self._new_random(), self._laws)
                if self._backend.has_lab
                else None
            )
            self._nodes = await self._open.enter_async_context(asyncio.TaskGroup())
            self._began = monotonic()
        except BaseException:
            await self._open.aclose()
            raise
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in getattr(self, "_fleet", ()):
            task.cancel()
        await self._open.aclose()

    async def run(self, seconds: float) -> Report:
        """Waves and rests for so many seconds, then the verdict."""
        report = self.report
        self._is_long = seconds >= _LONG_SECONDS
        kinds = [HonestNode] * _HONEST_NODES + [LyingNode] * _LYING_NODES
        fleet = [
            kind(self._url, f"node-{number}", self._new_random(), self._laws)
            for number, kind in enumerate(kinds)
        ]
        self._fleet = [self._nodes.create_task(node.run()) for node in fleet]
        self._trouble = (
            Trouble(self._backend, fleet, self._new_random(), self._laws)
            if self._backend.is_broken_on_purpose
            else None
        )
        busy_before, own_before = self._cpu_seconds(), cpu_seconds(os.getpid())
        telling = asyncio.create_task(self._tell_now_and_then())
        try:
            await self._until_fleet_is_ready()
            if self._experimenter is not None:
                await self._experimenter.prepare()
            # Pools, threads and caches that exist from the first use on belong to the base.
            await self._wave(_WARM_UP_SECONDS)
            report.base = await self._rest(0.0)
            while True:
                left = seconds - self._elapsed() - self._rest_seconds
                wave_seconds = _CYCLE_SECONDS - self._rest_seconds
                await self._wave(max(1.0, min(wave_seconds, left)), self._trouble)
                is_last = self._elapsed() + 2 * self._rest_seconds >= seconds
                patience = _LAST_REST_PATIENCE_SECONDS if is_last else _REST_PATIENCE_SECONDS
                report.at_rest.append(await self._rest(patience))
                if is_last:
                    break
        finally:
            telling.cancel()
            await asyncio.wait([telling])
        report.seconds = self._elapsed()
        report.cpu_share = (self._cpu_seconds() - busy_before) / report.seconds
        report.load_cpu_share = (cpu_seconds(os.getpid()) - own_before) / report.seconds
        report.not_returned = over_base(report.base, report.at_rest[-1])
        report.trends = trends(report.at_rest)
        await self._end()
        return report

    async def _end(self) -> None:
        """Let the servers end in peace, and read what they wrote."""
        for task in self._fleet:
            task.cancel()
        await asyncio.wait(self._fleet)
        servers, report = list(self._backend.servers.values()), self.report
        for server in servers:
            server.signal()
        report.exit_codes = [await asyncio.to_thread(server.wait) for server in servers]
        logs = [*self._backend.former_logs, *(server.log for server in servers)]
        events: Counter[str] = Counter()
        for line in "".join(logs).splitlines():
            event, is_error = _read_log_line(line)
            events[event] += 1
            if is_error:
                report.log_errors.append(line[:2000])
        report.log_events = dict(events.most_common())
        report.breaches = self._laws.breaches
        report.breach_count = self._laws.breach_count
        report.counts = dict(sorted(self._laws.counts.items()))

    # --- load ------------------------------------------------------------------------------------

    async def _wave(self, seconds: float, trouble: Trouble | None = None) -> None:
        """Load for so long; over when everything that was begun has its end."""
        stop = asyncio.Event()
        callers = [
            Caller(
                self._http,
                f"caller-{self._next_person()}",
                self._new_random(),
                self._laws,
                is_patient=self._backend.is_broken_on_purpose,
            )
            for _ in range(_CALLERS)
        ]
        loads: list[Awaitable[None]] = [
            *(self._repeat(stop, self._converse_once(stop)) for _ in range(_SPEAKERS)),
            *(self._repeat(stop, caller.call) for caller in callers),
        ]
        if self._experimenter is not None:
            loads.append(self._repeat(stop, self._experimenter.run_one))
        if trouble is None:
            loads.append(self._read_under_load(stop))
        else:
            loads.append(trouble.make(stop))
        working = asyncio.gather(*loads)
        try:
            await asyncio.wait([working], timeout=seconds)
        finally:
            stop.set()
            await working

    def _converse_once(self, stop: asyncio.Event) -> Callable[[], Awaitable[None]]:
        async def converse() -> None:
            name = f"speaker-{self._next_person()}"
            speaker = Speaker(
                self._url,
                name,
                self._new_random(),
                self._laws,
                grace_seconds=self._backend.grace_seconds,
                is_patient=self._backend.is_broken_on_purpose,
            )
            await speaker.converse(stop)

        return converse

    async def _repeat(self, stop: asyncio.Event, act: Callable[[], Awaitable[None]]) -> None:
        random = self._new_random()
        while not stop.is_set():
            try:
                await act()
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                self._laws.require(False, f"the load failed: {error!r} in {where}")
            with suppress(TimeoutError):
                async with asyncio.timeout(random.uniform(0.2, 1.0)):
                    await stop.wait()

    async def _until_fleet_is_ready(self) -> None:
        while True:
            answer = await self._http.get("/nodes")
            found = answer.raise_for_status().json()["items"]
            if sum(node["status"] == "ready" for node in found) == len(self._fleet):
                return
            await asyncio.sleep(0.1)

    # --- readings --------------------------------------------------------------------------------

    async def _rest(self, patience_seconds: float) -> Reading:
        """The reading at rest: after the retention, once all counts are back at the base."""
        deadline = monotonic() + self._rest_seconds + patience_seconds
        await asyncio.sleep(self._rest_seconds)
        while True:
            reading = await self._reader.read(self._elapsed())
            base = self.report.base
            if base is None or not over_base(base, reading) or monotonic() > deadline:
                break
            await asyncio.sleep(0.5)
        until = monotonic() + (_COLLECTOR_SECONDS if self._is_long else 0.0)
        while monotonic() < until:
            await asyncio.sleep(0.5)
            self._reader.lower_memory(reading)
        self._latest = reading
        return reading

    async def _read_under_load(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                self._latest = await self._reader.read(self._elapsed())
                self.report.under_load.append(self._latest)
            except httpx.TransportError as error:
                self._laws.require(False, f"GET /metrics failed: {error!r}")
            with suppress(TimeoutError):
                async with asyncio.timeout(_READ_SECONDS):
                    await stop.wait()

    async def _tell_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(10)
            latest: Reading | None = getattr(self, "_latest", None)
            if latest is None:
                continue
            counts = latest.counts
            rows = sum(value for name, value in counts.items() if name.startswith("rows: "))
            keys = f", {counts['Redis keys']} Redis keys" if "Redis keys" in counts else ""
            ends = self._laws.counts["translation_result"] + self._laws.counts["missing_result"]
            memory = ", ".join(
                f"{memory_kb / 1024:.1f} MB {name.removesuffix(' memory')}"
                for name, memory_kb in latest.memory_kb.items()
            )
            both = {**counts, **latest.spread}
            tasks = sum(value for name, value in both.items() if name.endswith("tasks"))
            sockets = sum(value for name, value in both.items() if name.endswith("sockets"))
            self._tell(
                f"{self._elapsed():5.0f} s  {self.report.name}: {memory}, "
                f"{tasks} tasks, {sockets} sockets, {rows} rows{keys}; {ends} utterances ended, "
                f"{self._laws.breach_count} laws broken"
            )

    # --- small things ----------------------------------------------------------------------------

    def _elapsed(self) -> float:
        return monotonic() - self._began

    def _cpu_seconds(self) -> float:
        return cpu_seconds(*(pid for own in self._backend.pids for pid in family(own)))

    def _new_random(self) -> Random:
        return Random(self._random.getrandbits(64))

    def _next_person(self) -> int:
        self._people += 1
        return self._people


def _read_log_line(line: str) -> tuple[str, bool]:
    """The event of a line of the log, and whether it tells of a failure of the server's own."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line[:60], True
    is_error = entry.get("level") in ("error", "critical") or "exception" in entry
    return str(entry.get("event")), is_error
