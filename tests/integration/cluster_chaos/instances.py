"""The servers of a run: instances of Dragoman, and a Redis with a replica that can take over, or
the three masters of a Redis Cluster."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress
from functools import partial
from itertools import count, cycle
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from tests.integration.cluster_chaos.tcp_proxy import Proxy
from tests.integration.serve.server_process import ServerProcess, environment
from tests.servers import RedisCluster, RedisProcess

SETTINGS = """
[server]
drain_seconds = 15
[lab]
enabled = false
[cluster]
enabled = true
redis_url = "redis://127.0.0.1:{redis_port}"
redis_cluster = {redis_cluster}
instance_id = "{name}"
# The machine may be busy: slow is not down.
redis_timeout_ms = 3000
presence_ttl_seconds = 5
owner_ttl_seconds = 8
reconcile_seconds = 1
[scheduler.node_health]
heartbeat_interval_seconds = 1
heartbeat_timeout_seconds = 6
reconnect_grace_seconds = 1
# On a busy machine heartbeats are late, and these tests are not about that.
window = 100000
window_failures = 100000
consecutive_failures = 100000
breaker_failures = 0
[scheduler.job_timeout]
pending_seconds = 40
ack_seconds = 3
run_seconds = 15
total_seconds = 90
cancel_grace_seconds = 2
[scheduler.session]
heartbeat_interval_seconds = 2
heartbeat_timeout_seconds = 20
[scheduler.delivery]
gap_grace_ms = 5000
resume_grace_seconds = 30
"""
RESUME_GRACE_SECONDS = 30.0

_DRAIN_PATIENCE_SECONDS = 600.0
"""Far beyond drain_seconds: on a busy machine a process may need minutes to end."""


class RedisPair:
    """A Redis, another that follows it, and a cable from each instance to whichever leads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count(1)
        self.primary = self._new()
        try:
            self.replica = self._follower()
        except BaseException:
            self.primary.stop()
            raise
        self.cables: list[Proxy] = []

    @property
    def members(self) -> tuple[RedisProcess, ...]:
        """Those that instances speak to."""
        return (self.primary,)

    def victim(self) -> RedisProcess:
        """The one that the next fault is for."""
        return self.primary

    async def cable(self) -> Proxy:
        """A new cable to the Redis that leads."""
        cable = Proxy()
        await cable.open()
        cable.target_port = self.primary.port
        self.cables.append(cable)
        return cable

    def restart_empty(self) -> None:
        self.primary.restart_empty()
        self._lead()

    async def restart_from_dump(self, age_seconds: float) -> None:
        """Kill the leader; it comes back as it was some seconds ago."""
        await asyncio.to_thread(self.primary.dump)
        await asyncio.sleep(age_seconds)
        await asyncio.to_thread(self.primary.restart_from_dump)
        await asyncio.to_thread(self._lead)

    def _lead(self) -> None:
        # One that took over began as a follower, and would be one again.
        self.primary.command("REPLICAOF", "NO", "ONE")

    async def fail_over(self, unseen_seconds: float) -> None:
        """Lose the leader; what it was told in its last moments, the other has not heard."""
        await asyncio.to_thread(self.replica.command, "REPLICAOF", "NO", "ONE")
        await asyncio.sleep(unseen_seconds)
        self.primary.kill()
        self.primary = self.replica
        for cable in self.cables:
            cable.target_port = self.primary.port
            await cable.break_all()
        self.replica = await asyncio.to_thread(self._follower)

    def stop(self) -> None:
        self.primary.stop()
        self.replica.stop()

    def _new(self) -> RedisProcess:
        return RedisProcess(self._folder / f"redis-{next(self._numbers)}")

    def _follower(self) -> RedisProcess:
        return self.primary.start_replica(self._folder / f"redis-{next(self._numbers)}")


class RedisMasters:
    """A Redis Cluster of three masters without replicas; each fault is for the next of them.

    Instances speak to the masters themselves: their cables only lead to where they begin.
    """

    def __init__(self, folder: Path) -> None:
        self._cluster = RedisCluster(folder / "redis-cluster")
        self._turns = cycle(self._cluster.nodes)
        self.cables: list[Proxy] = []

    @property
    def members(self) -> tuple[RedisProcess, ...]:
        return tuple(self._cluster.nodes)

    def victim(self) -> RedisProcess:
        return next(self._turns)

    async def cable(self) -> Proxy:
        cable = Proxy()
        await cable.open()
        cable.target_port = self._cluster.nodes[0].port
        self.cables.append(cable)
        return cable

    def restart_empty(self) -> None:
        self.victim().restart_empty()

    async def restart_from_dump(self, age_seconds: float) -> None:
        """Kill one of them; it comes back as it was some seconds ago, the others stay."""
        victim = self.victim()
        await asyncio.to_thread(victim.dump)
        await asyncio.sleep(age_seconds)
        await asyncio.to_thread(victim.restart_from_dump)

    async def fail_over(self, unseen_seconds: float) -> None:
        raise AssertionError("none of the masters has a replica")

    def stop(self) -> None:
        self._cluster.stop()


class Instance:
    """One instance through all its lives, behind a door that stays where it is."""

    def __init__(
        self,
        name: str,
        folder: Path,
        to_redis: Proxy,
        settings: str = SETTINGS,
        *,
        redis_cluster: bool = False,
    ) -> None:
        self.name = name
        self.to_redis = to_redis
        self.door = Proxy()
        self.logs: list[str] = []
        """What its former lives wrote."""
        self._folder = folder
        self._settings = settings
        self._redis_cluster = redis_cluster
        self._server: ServerProcess | None = None
        self._starting: asyncio.Future[ServerProcess] | None = None

    @property
    def url(self) -> str:
        """Where callers find it, through the door."""
        return f"http://127.0.0.1:{self.door.port}"

    @property
    def url_inside(self) -> str | None:
        """Where it listens itself, past the door; None while it does not run."""
        return self._server.url if self._server is not None else None

    @property
    def server(self) -> ServerProcess:
        assert self._server is not None, f"{self.name} does not run"
        return self._server

    async def open(self) -> None:
        await self.door.open()
        await self.start()

    async def start(self) -> None:
        """Begin a new life."""
        file = self._folder / f"{self.name}.toml"
        settings = self._settings.format(
            redis_port=self.to_redis.port,
            redis_cluster=str(self._redis_cluster).lower(),
            name=self.name,
        )
        file.write_text(settings)
        data_dir = self._folder / self.name
        begin = partial(ServerProcess, data_dir, "--config", file, env=environment())
        # Whoever waits for it may be cancelled; the process is there nevertheless.
        self._starting = asyncio.get_running_loop().run_in_executor(None, begin)
        self._server = await asyncio.shield(self._starting)
        self._starting = None
        self.door.target_port = httpx.URL(self._server.url).port

    def pause(self) -> None:
        self.server.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.server.signal(signal.SIGCONT)

    async def kill(self) -> None:
        self.door.target_port = None
        await asyncio.to_thread(self.server.end)
        self._is_over()

    async def drain(self) -> None:
        """Let it end in peace."""
        server = self.server
        server.signal(signal.SIGTERM)
        await asyncio.to_thread(server.process.wait, _DRAIN_PATIENCE_SECONDS)
        await self.kill()

    async def close(self) -> None:
        """Make sure that nothing is left of it, whatever happened."""
        if self._starting is not None:
            with suppress(AssertionError):  # it did not start, as whoever waited was told
                self._server = await self._starting
        if self._server is not None:
            await self.kill()
        await self.door.close()

    async def look(self, path: str) -> Any:
        async with httpx.AsyncClient(timeout=10, trust_env=False) as http:
            answer = await http.get(f"{self.server.url}/api/v1{path}")
            return answer.raise_for_status().json()

    def _is_over(self) -> None:
        self.logs.append(self.server.log)
        # The next life writes to the same file.
        kept = self._folder / f"{self.name}-life-{len(self.logs)}.log"
        kept.write_text(self.logs[-1])
        self._server = None


class Servers:
    """Several instances over one Redis, or over a Redis Cluster."""

    def __init__(
        self,
        names: Iterable[str],
        folder: Path,
        settings: str = SETTINGS,
        *,
        redis_cluster: bool = False,
    ) -> None:
        self._redis_cluster = redis_cluster
        self._names = tuple(names)
        self._folder = folder
        self._settings = settings
        self._open = AsyncExitStack()
        self.instances: dict[str, Instance] = {}

    @property
    def urls(self) -> dict[str, str]:
        """Where each instance is found."""
        return {name: instance.url for name, instance in self.instances.items()}

    @property
    def logs(self) -> list[str]:
        """What all instances wrote in all their lives; complete once they are closed."""
        return [log for instance in self.instances.values() for log in instance.logs]

    async def __aenter__(self) -> Self:
        try:
            kind = RedisMasters if self._redis_cluster else RedisPair
            self.redis: RedisPair | RedisMasters = await asyncio.to_thread(kind, self._folder)
            self._open.callback(self.redis.stop)
            for name in self._names:
                cable = await self.redis.cable()
                self._open.push_async_callback(cable.close)
                instance = Instance(
                    name, self._folder, cable, self._settings, redis_cluster=self._redis_cluster
                )
                self._open.push_async_callback(instance.close)
                self.instances[name] = instance
            async with asyncio.TaskGroup() as group:
                for instance in self.instances.values():
                    group.create_task(instance.open())
        except BaseException:
            await self._open.aclose()
            raise
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._open.aclose()
