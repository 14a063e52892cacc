"""A ClickHouse server for tests: one that is given, or the real engine behind a thin front."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

SERVER_VARIABLE = "DRAGOMAN_TEST_CLICKHOUSE_URL"
"""A real server, as in clickhouse://user:password@host:8123; databases are made on it."""


class ClickHouseProcess:
    """Answers on an address that stays the same when it is killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    @property
    def given(self) -> str | None:
        return os.environ.get(SERVER_VARIABLE)

    def fresh_database(self) -> str:
        """The URL of a database that nothing is in."""
        self._databases += 1
        name = f"test_{os.getpid()}_{self._databases}"
        if self.given:
            return urlunsplit(urlsplit(self.given)._replace(path=f"/{name}"))
        return f"clickhouse://127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        if self.given or self._process is not None:
            return
        self._process = subprocess.Popen(
            [
                sys.executable,
                str(Path(__file__).with_name("clickhouse_front.py")),
                str(self._folder),
                str(self.port),
            ],
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None
