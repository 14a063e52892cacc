"""The processes of nodes and of speakers."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
from tests.integration.cluster_chaos.node_process import NodesOrder
from tests.integration.cluster_chaos.speakers import SpeakersOrder
from tests.integration.serve.server_process import environment

_ROOT = Path(__file__).parents[3]


class Process:
    """A script of this folder, with its order."""

    def __init__(self, module: str, order: msgspec.Struct, errors: Path) -> None:
        self._command = (
            sys.executable,
            "-m",
            f"{__package__}.{module}",
            msgspec.json.encode(order).decode(),
        )
        self._errors = errors
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def errors(self) -> str:
        """What it wrote on stderr in all its lives: nothing, when all went well."""
        return self._errors.read_text() if self._errors.exists() else ""

    def start(self) -> None:
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                self._command,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                cwd=_ROOT,
                env=environment(),
            )

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def ask_to_end(self) -> None:
        """Ask it to end in peace."""
        if self.runs:
            self._signal(signal.SIGTERM)

    async def end(self, patience_seconds: float) -> bool:
        """Ask it to end in peace; False when it had to be killed."""
        if self._process is None:
            return True
        self.ask_to_end()
        try:
            await asyncio.to_thread(self._process.wait, patience_seconds)
        except subprocess.TimeoutExpired:
            return False
        finally:
            await self.kill()
        return True

    async def kill(self) -> None:
        """Make sure that nothing is left of it."""
        if self._process is not None:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)
            self._process = None

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)


class NodeGroup(Process):
    """Some nodes in one process."""

    def __init__(self, order: NodesOrder, errors: Path) -> None:
        super().__init__("node_process", order, errors)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)


class SpeakerGroup(Process):
    """Some speakers and callers in one process."""

    def __init__(self, order: SpeakersOrder, errors: Path) -> None:
        super().__init__("speakers", order, errors)
