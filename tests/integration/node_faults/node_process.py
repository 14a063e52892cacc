"""Nodes as processes of their own, and what each of them wrote down."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.integration.live_api.manual_node import Body, Caller
from tests.integration.serve.server_process import (
    DRAGOMAN,
    PATIENCE_SECONDS,
    ServerProcess,
    environment,
    eventually,
)

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[2]


class NodeProcess:
    """A program that is a node of some name."""

    def __init__(self, node_id: str, log: Path, command: Sequence[str | Path]) -> None:
        self.node_id = node_id
        self._log = log
        with log.with_suffix(".err").open("wb") as errors:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                cwd=_ROOT,  # scripts import what other tests share
                env=environment(),
            )

    @property
    def lines(self) -> list[Body]:
        """What it has written down so far; a line that is only half there is left out."""
        if not self._log.exists():
            return []
        whole, _, _ = self._log.read_bytes().rpartition(b"\n")
        return [json.loads(line) for line in whole.splitlines()]

    @property
    def errors(self) -> str:
        """What it told its owner on stderr."""
        return self._log.with_suffix(".err").read_text()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def say(self, **message: Any) -> None:
        """Have a crooked node send this."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def wait(self) -> int:
        """Its exit code, when it has ended."""
        return self.process.wait(timeout=PATIENCE_SECONDS)

    def end(self) -> None:
        """Make sure that nothing is left of it, however the test went."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()


class RecordedNode(NodeProcess):
    """A well-behaved node, whose jobs take until its gate is open."""

    def __init__(self, node_id: str, log: Path, command: Sequence[str | Path], gate: Path) -> None:
        super().__init__(node_id, log, command)
        self._gate = gate

    def open_gate(self) -> None:
        """Let its jobs end, those in hand and those to come."""
        self._gate.touch()

    def events(self, kind: str) -> list[Body]:
        return [line for line in self.lines if line["event"] == kind]

    @property
    def accepted(self) -> list[str]:
        """The attempts that it took, in order."""
        return [event["attempt_id"] for event in self.events("Accepted")]

    @property
    def done(self) -> list[str]:
        """The attempts that it did well."""
        return [event["attempt_id"] for event in self.events("Ended") if event["code"] is None]


class Fleet:
    """The nodes of one test: all of one pair, which no other test uses."""

    def __init__(self, server: ServerProcess, folder: Path, pair: tuple[str, str]) -> None:
        self.server = server
        self.caller = Caller(server)
        self.pair = pair
        self.recorded: list[RecordedNode] = []
        self._url = server.url.replace("http", "ws")
        self._folder = folder
        self._started: list[NodeProcess] = []

    def start(
        self,
        name: str,
        *,
        slots: int = 1,
        holds: bool = False,
        node_id: str | None = None,
        url: str | None = None,
    ) -> RecordedNode:
        """Start a recorded node; one that `holds` ends no job until its gate is opened."""
        own_id, log, gate = self._named(name, node_id)
        script = (sys.executable, _HERE / "recorded_node.py", url or self._url, own_id)
        command = (*script, self._languages, str(slots), log, gate)
        node = RecordedNode(own_id, log, command, gate)
        if not holds:
            node.open_gate()
        self.recorded.append(node)
        self._started.append(node)
        return node

    def start_crooked(self, name: str, manner: str) -> NodeProcess:
        own_id, log, _ = self._named(name, None)
        module = f"{__package__}.crooked_node"
        command = (sys.executable, "-m", module, self._url, own_id, self._languages, log, manner)
        return self._keep(NodeProcess(own_id, log, command))

    def start_command(self, name: str) -> NodeProcess:
        """``dragoman node`` as a node owner starts it."""
        own_id, log, _ = self._named(name, None)
        flags = ("--url", self._url, "--node-id", own_id, "--nmt", self._languages)
        return self._keep(NodeProcess(own_id, log, (DRAGOMAN, "node", *flags)))

    def ready(self, *nodes: NodeProcess) -> None:
        """Wait until these nodes may be given jobs."""
        for node in nodes:
            eventually(partial(self._is_ready, node), f"{node.node_id} is ready")

    def status(self, node: NodeProcess) -> str | None:
        """How the server sees the node; None while it does not know it."""
        answer = self.caller.get(f"/nodes/{node.node_id}")
        return answer.json()["status"] if answer.status_code == 200 else None

    def used_slots(self, node: NodeProcess) -> int:
        used: int = self.caller.get(f"/nodes/{node.node_id}").json()["slots"]["used"]
        return used

    def end(self) -> None:
        for node in self._started:
            node.end()
        self.caller.close()

    @property
    def _languages(self) -> str:
        return ",".join(self.pair)

    def _is_ready(self, node: NodeProcess) -> bool:
        return self.status(node) == "ready"

    def _named(self, name: str, node_id: str | None) -> tuple[str, Path, Path]:
        """The node's id, its log and its gate."""
        own_id = node_id or f"{name}.{self.pair[0]}"
        return own_id, self._folder / f"{name}.log", self._folder / f"{name}.gate"

    def _keep(self, node: NodeProcess) -> NodeProcess:
        self._started.append(node)
        return node
