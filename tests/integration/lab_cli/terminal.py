"""Commands on a terminal of their own."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.serve.server_process import PATIENCE_SECONDS, environment


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, folder: Path, command: list[str], **variables: str) -> None:
        self._terminal, end = pty.openpty()
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=end,
            stdout=end,
            stderr=end,
            env=environment(PYTHONPATH=str(folder), TERM="xterm", COLUMNS="120", **variables),
            start_new_session=True,
            # As in a terminal, also where the tests run in the background with Ctrl-C ignored.
            preexec_fn=_heed_interrupts,  # noqa: PLW1509 (it takes no lock)
        )
        os.close(end)
        self.seen = ""

    def until(self, reached: Callable[[str], object], what: str) -> None:
        """Read what is shown until it has come so far."""
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while not reached(self.seen):
            assert time.monotonic() < give_up_at, f"{what}: {self.seen[-2000:]!r}"
            if not self._read():
                assert reached(self.seen), f"{what}: {self.seen[-2000:]!r}"

    def _read(self) -> bool:
        ready, _, _ = select.select([self._terminal], [], [], 0.1)
        try:
            new = os.read(self._terminal, 65536) if ready else b" "
        except OSError:  # the other side is closed
            return False
        self.seen += new.decode(errors="replace").replace("\x1b", "<") if ready else ""
        return bool(new)

    def type(self, text: str) -> None:
        """Type as a person does."""
        os.write(self._terminal, text.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._terminal)


@contextmanager
def on_a_terminal(folder: Path, command: list[str], **variables: str) -> Iterator[Terminal]:
    terminal = Terminal(folder, command, **variables)
    try:
        yield terminal
    finally:
        terminal.close()
