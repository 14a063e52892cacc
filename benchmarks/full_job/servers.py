"""The servers that are measured, each in a process of its own."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.full_job.load import Address
from benchmarks.processes import running


@contextmanager
def dragoman_server(*, log_level: str = "warning", **settings: str) -> Iterator[Address]:
    """`dragoman serve` as it is out of the box: embedded, open, memory ledger.

    Settings are environment variables.
    """
    with tempfile.TemporaryDirectory() as data_dir:
        flags = ["--port", "0", "--data-dir", data_dir, "--log-level", log_level]
        command = [str(Path(sys.executable).with_name("dragoman")), "serve", *flags]
        with served(command, DRAGOMAN_SERVER__DRAIN_SECONDS="0", **settings) as address:
            yield address


@contextmanager
def relay_server() -> Iterator[Address]:
    """The bare relay."""
    with served([sys.executable, "-m", "benchmarks.full_job.relay"]) as address:
        yield address


@contextmanager
def served(command: list[str], **env: str) -> Iterator[Address]:
    """A server that prints its address, as the last word of a line, once it is ready."""
    with running(command, env=env) as process:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        if not words:
            raise RuntimeError(f"{' '.join(command)} ended before it was ready")
        port = urlsplit(words[-1]).port
        assert port is not None
        yield Address(port, process.pid)
