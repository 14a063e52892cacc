"""Finding the programs that tests start."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Callable

import pytest

_START_SECONDS = 20.0


def require_program(name: str) -> str:
    """The path of an installed program; without it the test is skipped, and fails in CI."""
    # Debian keeps servers off the path of users.
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if found is not None:
        return found
    missing = f"{name} is not installed; `make setup` installs it"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


def free_port() -> int:
    """A TCP port without a listener at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(condition: Callable[[], bool], what: str, seconds: float = _START_SECONDS) -> None:
    """Return as soon as the condition holds; fail with what was awaited when it never does."""
    give_up_at = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"waited {seconds:.0f} s in vain for {what}")
        time.sleep(0.01)
