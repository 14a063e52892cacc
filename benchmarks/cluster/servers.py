"""The servers that are measured: a Redis, and instances over it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from benchmarks.full_job.load import Address
from benchmarks.full_job.servers import dragoman_server, served
from benchmarks.processes import free_port, running

_PATIENCE_SECONDS = 10.0


@contextmanager
def redis_server() -> Iterator[Address]:
    """A Redis that keeps nothing on disk."""
    program = shutil.which("redis-server")
    if program is None:
        raise RuntimeError("redis-server is not installed")
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder]
        with running([*command, "--save", "", "--appendonly", "no"]) as process:
            _wait_for(port)
            yield Address(port, process.pid)


@contextmanager
def redis_cluster(masters: int) -> Iterator[tuple[Address, ...]]:
    """A Redis Cluster of so many masters, which keeps nothing on disk."""
    program = shutil.which("redis-server")
    if program is None:
        raise RuntimeError("redis-server is not installed")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        found: list[Address] = []
        for number in range(masters):
            home = Path(folder, str(number))
            home.mkdir()
            port = free_port()
            command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(home)]
            command += ["--save", "", "--appendonly", "no", "--cluster-enabled", "yes"]
            process = stack.enter_context(running([*command, "--cluster-port", str(free_port())]))
            _wait_for(port)
            found.append(Address(port, process.pid))
        addresses = [f"127.0.0.1:{address.port}" for address in found]
        tool = [program.replace("redis-server", "redis-cli"), "--cluster", "create", *addresses]
        subprocess.run([*tool, "--cluster-yes"], check=True, capture_output=True)
        _wait_for_cluster(found)
        yield tuple(found)


@contextmanager
def slow_line(redis: Address, delay_ms: int) -> Iterator[Address]:
    """The same Redis, which answers so much later."""
    command = [sys.executable, "-m", "benchmarks.cluster.slow_line", str(redis.port), str(delay_ms)]
    with served(command) as address:
        yield address


@contextmanager
def instances(count: int, redis: Address | None) -> Iterator[tuple[Address, ...]]:
    """Instances over a Redis, or one that needs none."""
    settings = {"DRAGOMAN_LAB__ENABLED": "false"}
    if redis is not None:
        settings["DRAGOMAN_CLUSTER__ENABLED"] = "true"
        settings["DRAGOMAN_CLUSTER__REDIS_URL"] = f"redis://127.0.0.1:{redis.port}"
    with ExitStack() as stack:
        yield tuple(stack.enter_context(dragoman_server(**settings)) for _ in range(count))


def _wait_for_cluster(masters: Sequence[Address]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for master in masters:
        with Redis(port=master.port) as client:
            while client.execute_command("CLUSTER INFO").get("cluster_state") != "ok":
                if time.monotonic() > deadline:
                    raise RuntimeError("the Redis Cluster did not form")
                time.sleep(0.02)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            with Redis(port=port) as client:
                client.ping()
            return
        except RedisError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
