"""Nodes that take every job and have the answer at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from benchmarks.full_job.frames import DragomanFrames, JobFrames, Told
from benchmarks.full_job.load import NODES
from benchmarks.full_job.tally import Tally
from benchmarks.full_job.websocket import Socket, connect

_BEAT_SECONDS = 15.0


class Node:
    """One node. It says each thing in a turn of the loop of its own, as one that works does."""

    def __init__(self, socket: Socket, frames: JobFrames, tally: Tally) -> None:
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._socket = socket
        self._frames = frames
        self._tally = tally
        self._call_soon = asyncio.get_running_loop().call_soon
        self._jobs: dict[str, Told] = {}
        """What it works on, by attempt."""
        socket.on_frame = self._received

    def register(self, frames: DragomanFrames, number: int) -> None:
        self._socket.send(frames.node_register(number))
        self._beat(frames)

    def _beat(self, frames: DragomanFrames) -> None:
        self._socket.send(frames.node_heartbeat(self._jobs.values()))
        asyncio.get_running_loop().call_later(_BEAT_SECONDS, self._beat, frames)

    def _received(self, payload: bytes) -> None:
        told = self._frames.read(payload)
        if told.kind == "job_assign":
            self._tally.saw("job_assign", payload)
            self._tally.assigned(told)
            self._jobs[told.attempt_id] = told
            self._say("job_ack", self._frames.job_ack(told))
            self._call_soon(self._start, told)
        elif told.kind == "node_status" and told.status == "ready" and not self.ready.done():
            self.ready.set_result(None)
        elif told.kind == "error":
            self._tally.failed(told)

    def _start(self, job: Told) -> None:
        self._say("job_started", self._frames.job_started(job))
        self._call_soon(self._finish, job)

    def _finish(self, job: Told) -> None:
        self._say("job_result", self._frames.job_result(job))
        self._jobs.pop(job.attempt_id, None)

    def _say(self, kind: str, payload: bytes) -> None:
        self._tally.saw(kind, payload)
        self._socket.send(payload)


class HoldingNode(Node):
    """A node that begins every job and never ends one."""

    def _finish(self, job: Told) -> None:
        self._tally.held += 1


async def open_nodes(
    port: int,
    frames: JobFrames,
    tally: Tally,
    numbers: Iterable[int] = range(NODES),
    kind: type[Node] = Node,
) -> None:
    """Connect nodes, all of them unless told otherwise, and wait until they get jobs."""
    for number in numbers:
        path = "/ws/node" if frames.sub else f"/ws/node/{number}"
        socket = await connect(port, path, frames.sub, binary=frames.binary)
        tally.watch(socket)
        node = kind(socket, frames, tally)
        if isinstance(frames, DragomanFrames):
            node.register(frames, number)
            async with asyncio.timeout(30):
                await node.ready
