"""A real server, started by its console script."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Self
from unittest import mock

import httpx

from dragoman.cli import main

DRAGOMAN = Path(sys.executable).with_name("dragoman")
PATIENCE_SECONDS = 60.0

_IN_THIS_PROCESS = "keys"
"""The command that most tests with keys need several times, and few are about.

To start a program for each takes half a second; its console script is started by those of serve.
"""

_NO_LAB = {"DRAGOMAN_LAB__ENABLED": "false"}

_READY = re.compile(r"Dragoman is ready at (\S+)")


def environment(**variables: str) -> dict[str, str]:
    """This process's environment without any settings of its own."""
    inherited = {name: value for name, value in os.environ.items() if "DRAGOMAN_" not in name}
    return {**inherited, "COLUMNS": "100", **variables}


def run(*arguments: str | Path, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Run a command to its end; its exit code, its output and its errors."""
    env = env or environment()
    if arguments[0] == _IN_THIS_PROCESS and not _in_a_loop():
        return _run_here([str(argument) for argument in arguments], env)
    return start(*arguments, env=env)


def start(*arguments: str | Path, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """The same, by the console script in every case."""
    done = subprocess.run(
        [DRAGOMAN, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        env=env or environment(),
    )
    return done.returncode, done.stdout, done.stderr


def _run_here(arguments: Sequence[str], env: Mapping[str, str]) -> tuple[int, str, str]:
    output, errors = io.StringIO(), io.StringIO()
    here = mock.patch.dict(os.environ, env, clear=True)
    with here, redirect_stdout(output), redirect_stderr(errors):
        code = main(arguments)
    return code, output.getvalue(), errors.getvalue()


def _in_a_loop() -> bool:
    """Whether this is called by an event loop, or beside one in a thread.

    No command can start a loop inside another, and what it prints is the whole process's.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return threading.current_thread() is not threading.main_thread()
    return True


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait until the condition holds."""
    deadline = monotonic() + PATIENCE_SECONDS
    while not condition():
        assert monotonic() < deadline, f"it never happened that {what}"
        sleep(0.05)


class ServerProcess:
    """``dragoman serve`` on a free port, or another program that prints the same ready line."""

    def __init__(
        self,
        data_dir: Path,
        *arguments: str | Path,
        command: Sequence[str | Path] = (DRAGOMAN, "serve"),
        env: Mapping[str, str] | None = None,
        lab: bool = False,
        cwd: Path | None = None,
    ) -> None:
        """Without its lab, unless asked for: a second process for each server takes long."""
        self.data_dir = data_dir
        self._log = data_dir.with_suffix(".log")
        self._output = ""
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, "--port", "0", "--data-dir", data_dir, *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=cwd,
                env={**({} if lab else _NO_LAB), **(env or environment())},
            )
        self.url = self._wait_until_ready()

    def _wait_until_ready(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._output += line
            if found := _READY.search(line):
                return found[1]
        self.end()
        raise AssertionError(f"the server did not start: {self.log}")

    @property
    def log(self) -> str:
        """Everything the server has written to stderr."""
        return self._log.read_text()

    @property
    def record(self) -> dict[str, object]:
        """What the server tells the tools of this machine."""
        found: dict[str, object] = json.loads((self.data_dir / "server.json").read_text())
        return found

    def get(self, path: str, key: str | None = None) -> httpx.Response:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return httpx.get(self.url + path, headers=headers, timeout=PATIENCE_SECONDS)

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        return self.process.wait(timeout=PATIENCE_SECONDS)

    def all_output(self) -> str:
        """Everything that the server has written, once it has ended."""
        assert self.process.stdout is not None
        self._output += self.process.stdout.read()
        return self._output + self.log

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()

    def end(self) -> None:
        """Make sure that nothing is left of it, however the test went."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
