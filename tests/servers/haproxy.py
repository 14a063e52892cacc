"""A real haproxy with the configuration that is deployed, in front of servers of this machine."""

from __future__ import annotations

import csv
import re
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.servers.programs import free_port, require_program, wait_until

DEPLOYED = Path(__file__).parents[2] / "deploy" / "cluster" / "haproxy.cfg"


class HaproxyProcess:
    """One haproxy on a free port, with the deployed file but for the addresses in it."""

    def __init__(self, folder: Path, ports: Mapping[str, int]) -> None:
        """Start it; `ports` says where the servers are that the file names."""
        port, self._states_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{port}"
        config = folder / "haproxy.cfg"
        config.write_text(_on_this_machine(DEPLOYED.read_text(), port, self._states_port, ports))
        self._log = folder / "haproxy.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [require_program("haproxy"), "-db", "-f", config], stdout=log, stderr=log
            )
        try:
            wait_until(lambda: not self._runs or bool(self.states()), "haproxy to answer")
        except TimeoutError:
            self.stop()
            raise
        if not self._runs:
            raise RuntimeError(f"haproxy does not start:\n{self._log.read_text()}")

    @property
    def _runs(self) -> bool:
        return self._process.poll() is None

    def states(self) -> dict[str, str]:
        """What it thinks of each server: UP, DOWN, or on the way; empty before it answers."""
        try:
            shown = self._ask("show stat")
        except ConnectionRefusedError:
            return {}
        return {
            row["svname"]: row["status"]
            for row in csv.DictReader(shown.removeprefix("# ").splitlines())
            if row["pxname"] == "instances" and row["svname"] != "BACKEND"
        }

    def sends_to(self, name: str) -> bool:
        """Whether new callers may get to this server."""
        return self.states().get(name, "").startswith("UP")

    def stop(self) -> None:
        """End it; harmless when it has ended."""
        self._process.kill()
        self._process.wait()

    def _ask(self, command: str) -> str:
        with socket.create_connection(("127.0.0.1", self._states_port), timeout=10) as asked:
            asked.sendall(f"{command}\n".encode())
            return b"".join(iter(lambda: asked.recv(65536), b"")).decode()


def _on_this_machine(config: str, port: int, states_port: int, ports: Mapping[str, int]) -> str:
    states = f"global\n    stats socket ipv4@127.0.0.1:{states_port} level user"
    config = _replaced("^global$", states, config)
    config = _replaced("bind :8080$", f"bind 127.0.0.1:{port}", config)
    for name, own_port in ports.items():
        config = _replaced(
            f"server {name} {name}:8080$", f"server {name} 127.0.0.1:{own_port}", config
        )
    return config


def _replaced(pattern: str, text: str, config: str) -> str:
    """The configuration with the one place replaced that must be there."""
    changed, count = re.subn(pattern, text, config, flags=re.MULTILINE)
    assert count == 1, f"{DEPLOYED} has {pattern!r} {count} times"
    return changed
