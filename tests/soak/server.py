"""The servers under soak, with everything they keep for a time kept for a short time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path

from tests.integration.serve.server_process import ServerProcess, environment
from tests.servers import HaproxyProcess, RedisProcess
from tests.servers.programs import free_port

RETENTION_SECONDS = 8
"""How long jobs, bindings and offline nodes are kept. At rest, all of them are gone."""
RESUME_GRACE_SECONDS = 5
CLUSTER_GRACE_SECONDS = 8
"""Longer than an instance is gone, or Redis away, and long enough to be noticed."""
EXPLANATIONS = 200
RUN_SECONDS = 3.0
ACK_SECONDS = 2.0

SETTINGS = f"""
[log]
format = "json"
[scheduler]
job_retention_seconds = {RETENTION_SECONDS}
explain_max = {EXPLANATIONS}
[scheduler.task_binding]
lease_seconds = {RETENTION_SECONDS}
reserved_ttl_seconds = 20
[scheduler.web_task_segmentation]
pause_ms = 400
max_duration_ms = 1500
max_bytes = 30000
# A busy machine delays the client, too; what is missing for this long was never sent.
hangover_auto_ms = 2000
hangover_manual_ms = 2000
[scheduler.delivery]
gap_grace_ms = 3000
resume_grace_seconds = {{grace_seconds}}
# Full within minutes, so that nothing of it grows later.
timeline_max = 200
[scheduler.session]
heartbeat_interval_seconds = 3
heartbeat_timeout_seconds = 20
[scheduler.job_timeout]
pending_seconds = 8
ack_seconds = {ACK_SECONDS}
run_seconds = {RUN_SECONDS}
total_seconds = 20
cancel_grace_seconds = 1
[scheduler.node_health]
heartbeat_interval_seconds = 2
heartbeat_timeout_seconds = 15
reconnect_grace_seconds = 1
forget_offline_seconds = {RETENTION_SECONDS}
# On a busy machine heartbeats are late, and the soak is not about that.
window = 500
window_failures = 500
consecutive_failures = 100000
[scheduler.model_not_available]
unavailable_ttl_seconds = 2
"""
_ON_REDIS = """
[cluster]
enabled = true
redis_url = "{url}"
# Slow is not down.
redis_timeout_ms = {timeout_ms}
"""
_IN_A_CLUSTER = """
instance_id = "{name}"
presence_ttl_seconds = 5
owner_ttl_seconds = 8
reconcile_seconds = 1
"""


class Kind(StrEnum):
    """What is under soak."""

    MEMORY = "memory"
    """One server with its lab; the ledger is in its memory."""
    REDIS = "redis"
    """One server with its lab; the ledger is in Redis."""
    CLUSTER = "cluster"
    """Three servers without labs over one Redis, behind haproxy, with faults."""


SERVERS = {Kind.MEMORY: ("server",), Kind.REDIS: ("server",), Kind.CLUSTER: ("one", "two", "three")}
KILLED = "three"
"""The one that is killed, and comes back; the others stay, so that one can see what they hold."""


class Backend:
    """The servers, with the Redis and the proxy that they need. All of them are ready."""

    def __init__(self, folder: Path, kind: Kind) -> None:
        self.kind = kind
        self.redis = None if kind is Kind.MEMORY else RedisProcess(folder / "redis")
        self.servers: dict[str, ServerProcess] = {}
        self.former_logs: list[str] = []
        """What servers wrote that were killed."""
        self._proxy: HaproxyProcess | None = None
        self._folder = folder
        self._ports = {name: free_port() for name in SERVERS[kind]}
        try:
            with ThreadPoolExecutor() as pool:
                list(pool.map(self.start, self._ports))
            if kind is Kind.CLUSTER:
                self._proxy = HaproxyProcess(folder, self._ports)
        except BaseException:
            self.end()
            raise

    @property
    def url(self) -> str:
        """Where everybody finds them."""
        if self._proxy is not None:
            return self._proxy.url
        (server,) = self.servers.values()
        return server.url

    @property
    def grace_seconds(self) -> int:
        """How long a session waits for its client."""
        return CLUSTER_GRACE_SECONDS if self.kind is Kind.CLUSTER else RESUME_GRACE_SECONDS

    @property
    def is_broken_on_purpose(self) -> bool:
        """Whether callers must expect to find nobody, for a while."""
        return self.kind is Kind.CLUSTER

    @property
    def has_lab(self) -> bool:
        return self.kind is not Kind.CLUSTER

    @property
    def pids(self) -> list[int]:
        return [server.process.pid for server in self.servers.values()]

    def start(self, name: str) -> None:
        """Start one of the servers."""
        file = self._folder / f"{name}.toml"
        file.write_text(self._settings(name))
        self.servers[name] = ServerProcess(
            self._folder / (name if self.kind is Kind.CLUSTER else "data"),
            *("--config", file, "--port", str(self._ports[name])),
            env=environment(),
            lab=self.has_lab,
        )

    def kill(self, name: str) -> None:
        """End one of the servers at once, as a power cut would."""
        server = self.servers.pop(name)
        server.end()
        self.former_logs.append(server.log)

    def takes_callers(self) -> bool:
        """Whether the proxy sends callers to every server."""
        return self._proxy is None or all(map(self._proxy.sends_to, self._ports))

    def end(self) -> None:
        """Make sure that nothing is left of any of them."""
        if self._proxy is not None:
            self._proxy.stop()
        for server in self.servers.values():
            server.end()
        if self.redis is not None:
            self.redis.stop()

    def _settings(self, name: str) -> str:
        settings = SETTINGS.format(grace_seconds=self.grace_seconds)
        if self.redis is None:
            return settings
        if self.kind is not Kind.CLUSTER:
            return settings + _ON_REDIS.format(url=self.redis.url, timeout_ms=5000)
        on_redis = _ON_REDIS.format(url=self.redis.url, timeout_ms=2000)
        return settings + on_redis + _IN_A_CLUSTER.format(name=name)
