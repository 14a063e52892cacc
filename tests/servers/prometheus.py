"""A real Prometheus that scrapes what a test tells it to."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.servers.programs import free_port, require_program, wait_until


class PrometheusProcess:
    """One Prometheus on a free port of this machine, with its data in a folder of its own."""

    def __init__(self, config: Path, folder: Path) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log = folder / "prometheus.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [
                    require_program("prometheus"),
                    f"--config.file={config}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdout=log,
                stderr=log,
            )
        try:
            wait_until(self._is_ready, "Prometheus to be ready")
        except TimeoutError as error:
            self.stop()
            raise AssertionError(self._log.read_text()) from error

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/-/ready").status_code == 200
        except httpx.TransportError:
            return False

    def ask(self, path: str, **query: str) -> Any:
        """What its API answers; fails with its words when it refuses."""
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=query, timeout=30).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression: str) -> list[Any]:
        """The samples of an expression at this moment."""
        found: list[Any] = self.ask("query", query=expression)["result"]
        return found

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def prometheus(config: Path, folder: Path) -> Iterator[PrometheusProcess]:
    """Prometheus with this configuration, for as long as the block lasts."""
    started = PrometheusProcess(config, folder)
    try:
        yield started
    finally:
        started.stop()
