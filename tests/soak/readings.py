"""What a server holds at a moment: memory, tasks, sockets, threads, Redis keys, rows."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from benchmarks.processes import family
from tests.integration.serve.server_process import ServerProcess
from tests.integration.sight.scrape import Scrape
from tests.soak.server import KILLED, Backend, Kind

_KEPT_ROWS = ("audit_entry", "tenant_usage")
"""There to grow, for as long as is set: one for each action of an operator, and one for each day,
tenant and life of a server."""

_RECENT_JOBS = re.compile(r"\{n[0-9a-f]+\}:?jobs:\d+$")

_LEFT_KEY = re.compile(r"\{s[0-9a-f]{2}\}:(?:[zp]:s-|i:j-)[0-9a-f]+$")
"""The record of a session, or an input that was stored for a job which was then not opened."""


@dataclass
class Reading:
    """One moment. Every value but those only shown is judged by its slope."""

    seconds: float
    memory_kb: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    """What must also return to its base when the load stops."""
    pools: dict[str, int] = field(default_factory=dict)
    """What grows to a fixed size with use: threads, and the descriptors that each one opens."""
    spread: dict[str, int] = field(default_factory=dict)
    """What nodes and connections bring that go from one server of a cluster to another, and what a
    killed one leaves for a time; it may be somewhat more than at the base."""
    shown: dict[str, float] = field(default_factory=dict)
    """What is of interest and may change: work in progress, what retention keeps, disk."""


class Reader:
    """Reads everything about one server, from outside."""

    def __init__(self, backend: Backend, http: httpx.AsyncClient) -> None:
        self._backend = backend
        self._http = http

    async def read(self, seconds: float) -> Reading:
        reading = Reading(seconds)
        for server in self._backend.servers.values():
            await self._read_metrics(reading, server)
            self._read_rows(reading, server)
        for name, pids in self._processes().items():
            self._read_processes(reading, name, pids)
        self._read_redis(reading)
        return reading

    def lower_memory(self, reading: Reading) -> None:
        """Let the reading have the memory of now where it is less."""
        for name, pids in self._processes().items():
            held = reading.memory_kb if name != KILLED else reading.shown
            held[f"{name} memory"] = min(held[f"{name} memory"], _memory_kb(pids))

    def _processes(self) -> dict[str, list[int]]:
        found = {}
        for name, server in self._backend.servers.items():
            own_pid, *lab_pids = family(server.process.pid)
            found[name] = [own_pid]
            if self._backend.has_lab:
                found["lab"] = lab_pids
        return found

    async def _read_metrics(self, reading: Reading, server: ServerProcess) -> None:
        # Counts are added up: sessions and nodes go from one server of a cluster to another.
        counts = Counter(reading.counts)
        answer = await self._http.get(f"{server.url}/metrics")
        found = Scrape(answer.raise_for_status().text)
        # The request that asks is a task itself, and so is its forwarding to the lab.
        counts["server tasks"] += int(found.total("scheduler_event_loop_tasks"))
        if self._backend.has_lab:
            counts["lab tasks"] += int(found.total("lab_event_loop_tasks"))
        counts["sessions"] += int(found.total("scheduler_sessions"))
        counts["jobs in line"] += int(found.total("scheduler_pending_jobs"))
        counts["slots in use"] += int(found.total("scheduler_slots", state="used"))
        reading.counts = dict(counts)
        reading.shown["metric series"] = len(answer.text.splitlines())

    def _read_processes(self, reading: Reading, name: str, pids: list[int]) -> None:
        file_kb = descriptors = sockets = threads = 0
        for pid in pids:
            with suppress(OSError):  # ended while it was looked at
                status = _status(pid)
                file_kb += status["RssFile"]
                threads += status["Threads"]
                links = _open_files(pid)
                descriptors += len(links)
                sockets += sum(link.startswith("socket:") for link in links)
        # What a new process holds says nothing about what grows.
        held = reading.memory_kb if name != KILLED else reading.shown
        held[f"{name} memory"] = _memory_kb(pids)
        reading.shown[f"{name} kB of files"] = file_kb
        reading.counts[f"{name} processes"] = len(pids)
        if self._backend.kind is Kind.CLUSTER:
            spread = Counter(reading.spread)
            spread.update({"threads": threads, "descriptors": descriptors, "sockets": sockets})
            reading.spread = dict(spread)
            return
        reading.pools[f"{name} threads"] = threads
        reading.pools[f"{name} descriptors"] = descriptors
        reading.counts[f"{name} sockets"] = sockets

    @staticmethod
    def _read_rows(reading: Reading, server: ServerProcess) -> None:
        file = server.data_dir / "dragoman.db"
        reading.shown["database bytes"] = file.stat().st_size
        counts = Counter(reading.counts)
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=10)) as store:
            found = store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            for (table,) in found.fetchall():
                ((rows,),) = store.execute(f'SELECT count(*) FROM "{table}"')
                if table in _KEPT_ROWS:
                    reading.shown[f"rows: {table}"] = rows
                else:
                    counts[f"rows: {table}"] += rows
        reading.counts = dict(counts)

    def _read_redis(self, reading: Reading) -> None:
        redis = self._backend.redis
        if redis is None:
            return
        keys = redis.command("--scan").split()
        # One a minute is begun and kept for an hour, whatever becomes of the jobs in it.
        lists = sum(_RECENT_JOBS.search(key) is not None for key in keys)
        left = 0
        if self._backend.kind is Kind.CLUSTER:
            # What a killed instance could not forget stays for its time: a session for twice the
            # grace and more, an input for an hour.
            left = sum(_LEFT_KEY.search(key) is not None for key in keys)
            reading.spread["Redis keys of killed instances"] = left
        reading.counts["Redis keys"] = len(keys) - lists - left
        reading.shown["Redis lists of recent jobs"] = lists
        for line in redis.command("INFO", "memory").splitlines():
            if line.startswith("used_memory:"):
                reading.shown["Redis memory bytes"] = int(line.partition(":")[2])


def _memory_kb(pids: list[int]) -> int:
    """What processes hold of their own.

    Pages of files, as of libraries, are the kernel's to take away and to bring back, and when it
    does is no matter of the process. No more can be there than is mapped.
    """
    held_kb = 0
    for pid in pids:
        with suppress(OSError):  # ended while it was looked at
            status = _status(pid)
            held_kb += status["RssAnon"] + status["RssShmem"]
    return held_kb


def _status(pid: int) -> dict[str, int]:
    """The numbers of /proc/PID/status; memory is in kB."""
    numbers = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdecimal():
            numbers[name] = int(words[0])
    return numbers


def _open_files(pid: int) -> list[str]:
    links = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            links.append(str(entry.readlink()))
    return links
