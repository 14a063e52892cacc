"""Clients that speak whole utterances, each as soon as an earlier one was answered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from benchmarks.full_job.frames import DragomanFrames, JobFrames, Told
from benchmarks.full_job.load import IN_FLIGHT_PER_SESSION, SESSIONS
from benchmarks.full_job.tally import Tally
from benchmarks.full_job.websocket import Socket, connect

HEARTBEAT_SECONDS = 1.0
"""Far more often than a real client, because far more results come than to one."""


class Session:
    """One client."""

    def __init__(self, number: int, socket: Socket, frames: JobFrames, tally: Tally) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._number = number
        self._socket = socket
        self._frames = frames
        self._tally = tally
        self._next_index = 0
        self._last_delivery_seq = 0
        socket.on_frame = self._received

    def speak(self) -> None:
        """Say one more utterance."""
        payload = self._frames.utterance(self._number, self._next_index)
        self._next_index += 1
        self._tally.saw("utterance", payload)
        self._socket.send(payload)

    def open(self, frames: DragomanFrames) -> None:
        self._socket.send(frames.session_init())
        self._beat(frames)

    def _beat(self, frames: DragomanFrames) -> None:
        if self._last_delivery_seq:
            self._socket.send(frames.client_heartbeat(self._last_delivery_seq))
        asyncio.get_running_loop().call_later(HEARTBEAT_SECONDS, self._beat, frames)

    def _received(self, payload: bytes) -> None:
        told = self._frames.read(payload)
        if told.kind == "translation_result":
            self._answered(told, payload)
        elif told.kind == "session_init_ack":
            self.opened.set_result(None)
        elif told.kind in ("error", "missing_result"):
            self._tally.failed(told)

    def _answered(self, told: Told, payload: bytes) -> None:
        self._tally.jobs += 1
        self._tally.saw("translation_result", payload)
        self._last_delivery_seq = told.delivery_seq
        self.answered()

    def answered(self) -> None:
        """An utterance has come back: say the next one."""
        self.speak()


class QuietSession(Session):
    """A client that speaks when it is told to, and not because it was answered."""

    def answered(self) -> None:
        """Wait to be told."""


async def open_sessions(port: int, frames: JobFrames, tally: Tally) -> None:
    """Connect all clients and let them speak."""
    for session in await connect_sessions(port, frames, tally):
        for _ in range(IN_FLIGHT_PER_SESSION):
            session.speak()


async def connect_sessions(
    port: int,
    frames: JobFrames,
    tally: Tally,
    numbers: Iterable[int] = range(SESSIONS),
    kind: type[Session] = Session,
) -> list[Session]:
    """Connect clients, all of them unless told otherwise."""
    sessions = []
    for number in numbers:
        path = "/ws/session" if frames.sub else f"/ws/session/{number}"
        socket = await connect(port, path, frames.sub, binary=frames.binary)
        tally.watch(socket)
        session = kind(number, socket, frames, tally)
        if isinstance(frames, DragomanFrames):
            session.open(frames)
            async with asyncio.timeout(30):
                await session.opened
        sessions.append(session)
    return sessions
