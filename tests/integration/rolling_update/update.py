"""Three instances behind haproxy, each replaced by a newer version while everybody goes on talking.

Servers and proxy have the settings in `deploy/cluster`, but for addresses and keys. Everybody
comes through the proxy and writes down what goes over the wire.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
from tests.integration.cluster_chaos.node_process import NodesOrder
from tests.integration.cluster_chaos.people import NodeGroup, Process, SpeakerGroup
from tests.integration.cluster_chaos.records import Heard, Record, read_all
from tests.integration.cluster_chaos.speakers import SpeakersOrder
from tests.integration.serve.server_process import ServerProcess, environment
from tests.servers import HaproxyProcess, RedisProcess
from tests.servers.haproxy import DEPLOYED
from tests.servers.programs import free_port

INSTANCES = ("one", "two", "three")
OLD, NEW = "1.0.0", "1.1.0"
SETTINGS = DEPLOYED.with_name("dragoman.toml")
PATIENCE_SECONDS = 180.0
"""Without any progress; a busy machine takes longer."""
_NODES = 12
_SLOTS = 8
_CALLERS = 2
_SPEAKERS_A_PROCESS = 100
_VERSION = re.compile(r'^dragoman_build_info\{.*version="([^"]+)"', re.MULTILINE)
_PROGRAM = """
import sys
from dragoman import version
version.__version__ = {version!r}
from dragoman.cli import main
sys.exit(main())
"""
"""The command line of a version that differs in its name alone."""


class Instance:
    """One instance, whichever version of it runs."""

    def __init__(self, name: str, folder: Path, redis: RedisProcess) -> None:
        self.name = name
        self.port = free_port()
        self.exit_codes: list[int] = []
        self.logs: list[str] = []
        """Of every version that has ended."""
        self._folder = folder
        self._environment = environment(
            DRAGOMAN_SERVER__HOST="127.0.0.1",
            DRAGOMAN_AUTH__MODE="open",
            DRAGOMAN_CLUSTER__REDIS_URL=redis.url,
            DRAGOMAN_CLUSTER__INSTANCE_ID=name,
            # The machine may be busy: slow is not down, and a late heartbeat no sick node.
            DRAGOMAN_CLUSTER__REDIS_TIMEOUT_MS="5000",
            DRAGOMAN_SCHEDULER__NODE_HEALTH__CONSECUTIVE_FAILURES="100000",
            DRAGOMAN_SCHEDULER__NODE_HEALTH__WINDOW="100000",
            DRAGOMAN_SCHEDULER__NODE_HEALTH__WINDOW_FAILURES="100000",
            DRAGOMAN_SCHEDULER__NODE_HEALTH__BREAKER_FAILURES="0",
            DRAGOMAN_SCHEDULER__JOB_TIMEOUT__PENDING_SECONDS="60",
            DRAGOMAN_SCHEDULER__JOB_TIMEOUT__ACK_SECONDS="20",
            DRAGOMAN_SCHEDULER__JOB_TIMEOUT__RUN_SECONDS="60",
            DRAGOMAN_SCHEDULER__JOB_TIMEOUT__TOTAL_SECONDS="180",
            DRAGOMAN_SCHEDULER__DELIVERY__GAP_GRACE_MS="60000",
        )
        self._server: ServerProcess | None = None

    async def start(self, version: str) -> None:
        command = (sys.executable, "-c", _PROGRAM.format(version=version), "serve")
        self._server = await asyncio.to_thread(
            lambda: ServerProcess(
                self._folder / self.name,
                *("--config", SETTINGS, "--port", str(self.port)),
                command=command,
                env=self._environment,
            )
        )

    async def drain(self) -> None:
        """Send SIGTERM, and wait until the process has ended by itself."""
        assert self._server is not None
        self._server.signal()
        self.exit_codes.append(await asyncio.to_thread(self._server.wait))
        self.end()

    def end(self) -> None:
        """Make sure that nothing is left of it."""
        if self._server is not None:
            self._server.end()
            self.logs.append(self._server.log)
            self._server = None

    async def look(self, http: httpx.AsyncClient, path: str) -> httpx.Response:
        answer = await http.get(f"http://127.0.0.1:{self.port}{path}")
        return answer.raise_for_status()

    async def version(self, http: httpx.AsyncClient) -> str:
        found = _VERSION.search((await self.look(http, "/metrics")).text)
        assert found is not None
        return found[1]


class Outcome(msgspec.Struct):
    """What is left to judge when everybody has ended."""

    records: list[Record]
    versions: list[str]
    """Of the instances, when all have been replaced."""
    exit_codes: list[int]
    """Of the replaced ones."""
    logs: list[str]
    """Of all instances."""
    errors: list[str]
    """Of nodes and speakers."""
    update_seconds: float


async def update(folder: Path, seed: int, sessions: int, pause_seconds: float) -> Outcome:
    """Play it through; no process is left, whatever happens."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx.AsyncClient(timeout=30, trust_env=False))
        redis = await asyncio.to_thread(RedisProcess, folder / "redis")
        stack.callback(redis.stop)
        instances = [Instance(name, folder, redis) for name in INSTANCES]
        for instance in instances:
            stack.callback(instance.end)
        await asyncio.gather(*(instance.start(OLD) for instance in instances))
        ports = {instance.name: instance.port for instance in instances}
        proxy = await asyncio.to_thread(HaproxyProcess, folder, ports)
        stack.callback(proxy.stop)
        for instance in instances:
            await _until(partial(_sent_to, proxy, instance.name), "haproxy to see all")
        nodes = _nodes(folder, seed, proxy.url)
        speakers = _speakers(folder, seed, proxy.url, sessions, pause_seconds)
        for process in (nodes, *speakers):
            stack.push_async_callback(process.kill)
        nodes.start()
        await _until(lambda: _all_ready(http, proxy.url), "the nodes to be ready")
        for process in speakers:
            process.start()
        await _until(lambda: _all_talk(folder, sessions), "everybody to hear something")
        began = time.monotonic()
        for instance in instances:
            await instance.drain()
            await instance.start(NEW)
            await _until(partial(_sent_to, proxy, instance.name), f"haproxy to see {instance.name}")
        update_seconds = time.monotonic() - began
        for process in speakers:
            process.ask_to_end()
        await _until(lambda: _all_ended(speakers), "everybody to close")
        await _until(lambda: _nothing_left(http, instances), "slots and sessions to be given back")
        versions = [await instance.version(http) for instance in instances]
        await nodes.end(PATIENCE_SECONDS)
        exit_codes = [code for instance in instances for code in instance.exit_codes]
        errors = [process.errors for process in (nodes, *speakers)]
    logs = [log for instance in instances for log in instance.logs]
    return Outcome(read_all(folder), versions, exit_codes, logs, errors, update_seconds)


def _nodes(folder: Path, seed: int, url: str) -> NodeGroup:
    order = NodesOrder(
        urls=[url],
        node_ids=[f"node-{number}" for number in range(_NODES)],
        slots=_SLOTS,
        seed=seed,
        diary=str(folder / "nodes.diary"),
        # What is missing at the end is then the update's fault alone.
        fails=0.0,
    )
    return NodeGroup(order, folder / "nodes.err")


def _speakers(
    folder: Path, seed: int, url: str, sessions: int, pause_seconds: float
) -> list[Process]:
    names = [f"speaker-{number}" for number in range(sessions)]
    return [
        SpeakerGroup(
            SpeakersOrder(
                urls={"the proxy": url},
                speakers=names[first : first + _SPEAKERS_A_PROCESS],
                callers=[f"caller-{first + number}" for number in range(_CALLERS)],
                pause_seconds=pause_seconds,
                seed=seed,
                diary=str(folder / f"speakers-{first}.diary"),
            ),
            folder / f"speakers-{first}.err",
        )
        for first in range(0, sessions, _SPEAKERS_A_PROCESS)
    ]


async def _sent_to(proxy: HaproxyProcess, name: str) -> bool:
    return proxy.sends_to(name)


async def _all_ready(http: httpx.AsyncClient, url: str) -> bool:
    answer = await http.get(f"{url}/api/v1/nodes")
    found: list[dict[str, Any]] = answer.raise_for_status().json()["items"]
    return len([node for node in found if node["status"] == "ready"]) == _NODES


async def _all_talk(folder: Path, sessions: int) -> bool:
    records = await asyncio.to_thread(read_all, folder)
    return len({record.speaker for record in records if isinstance(record, Heard)}) == sessions


async def _all_ended(speakers: list[Process]) -> bool:
    return not any(process.runs for process in speakers)


async def _nothing_left(http: httpx.AsyncClient, instances: list[Instance]) -> bool:
    for instance in instances:
        sessions = (await instance.look(http, "/api/v1/sessions")).json()["items"]
        nodes = (await instance.look(http, "/api/v1/nodes")).json()["items"]
        if sessions or any(node["slots"]["used"] for node in nodes):
            return False
    return True


async def _until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < give_up_at:
        with suppress(httpx.HTTPError):  # an instance that has just begun
            if await condition():
                return
        await asyncio.sleep(0.1)
    raise TimeoutError(f"waited {PATIENCE_SECONDS:.0f} s in vain for {what}")
