"""What listeners of one session cost the scheduler: CPU for each listener and result.

One speaker says text utterances to one node, without listeners and with many; what the scheduler's
process uses more is theirs. A few more never read: they are to cost the others nothing.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import NamedTuple

from rich.table import Table

from benchmarks.full_job.comparison import verdict
from benchmarks.full_job.figures import Figures
from benchmarks.full_job.page import record
from benchmarks.full_job.servers import dragoman_server
from benchmarks.full_job.websocket import Socket, connect
from benchmarks.processes import cpu_seconds
from dragoman.live.protocol import NodeHealth
from dragoman.sdk import Answer, Job, Node, ResourceUsage, SessionClient, SubProtocol

LISTENERS = 1_000
SLOW = 20
"""So many more that never read."""
RESULTS = 300
IN_FLIGHT = 8
HOLD_US = 15
"""At most so much for a listener and result."""

_IDLE = ResourceUsage(cpu_percent=1.0, mem_percent=1.0)
_PATIENCE_SECONDS = 300.0


async def _translate(job: Job) -> Answer:
    return Answer(text_translated=f"{job.text}, translated into some other language")


class _Audience:
    """Sockets that count what they hear, and some that never read."""

    def __init__(self) -> None:
        self.heard = 0
        self._sockets: list[Socket] = []

    async def fill(self, port: int, session_id: str, count: int, sub: SubProtocol) -> None:
        for number in range(count + SLOW):
            path = f"/ws/listen/{session_id}"
            socket = await connect(port, path, sub.value, binary=sub.binary)
            if number < count:
                socket.on_frame = self._hear
            else:
                socket.stop_reading()
            self._sockets.append(socket)

    def _hear(self, payload: bytes) -> None:
        self.heard += b"translation_result" in payload[:64]

    def leave(self) -> None:
        for socket in self._sockets:
            socket.close()


class _Row(NamedTuple):
    """What the table says of one audience."""

    shown: tuple[str, ...]
    each_us: float | None
    """The server's CPU for a listener and result; None: there was no listener."""


async def _speak(session: SessionClient, results: int) -> list[float]:
    """Say so much, a few at a time; how long each result took, in milliseconds."""
    took: list[float] = []
    waiting: list[float] = []
    for number in range(results):
        waiting.append(time.perf_counter())
        await session.say(f"sentence {number}")
        while len(waiting) >= IN_FLIGHT or (number + 1 == results and waiting):
            await session.next_result()
            took.append((time.perf_counter() - waiting.pop(0)) * 1000)
    return sorted(took)


async def _measure(port: int, pid: int, listeners: int, results: int) -> list[_Row]:
    url = f"http://127.0.0.1:{port}"
    node = Node(url, work=_translate, nmt=["en", "es"], slots=16, usage=lambda: _IDLE)
    serving = asyncio.create_task(node.serve())
    rows: list[_Row] = []
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while node.status is not NodeHealth.READY:  # noqa: ASYNC110 - told by no event
                await asyncio.sleep(0.05)
            alone_us = 0.0
            for sub in (None, SubProtocol.JSON, SubProtocol.MSGPACK):
                async with SessionClient(url, src_lang="en", tgt_lang="es") as session:
                    audience = _Audience()
                    count = 0 if sub is None else listeners
                    if sub is not None:
                        await audience.fill(port, str(session.session_id), count, sub)
                    await _speak(session, 20)
                    audience.heard = 0
                    before = cpu_seconds(pid)
                    took = await _speak(session, results)
                    while audience.heard < results * count:  # noqa: ASYNC110 - as above
                        await asyncio.sleep(0.01)
                    used_us = (cpu_seconds(pid) - before) * 1e6
                    name, each_us = "no listener", None
                    if sub is None:
                        alone_us = used_us
                    else:
                        name = f"{count:,} listeners, {sub.value}"
                        each_us = (used_us - alone_us) / (results * count)
                    times = (took[len(took) // 2], took[int(len(took) * 0.99)])
                    shown = (f"{ms:.1f} ms" for ms in times)
                    rows.append(
                        _Row(
                            (name, f"{results:,}", *shown, f"{used_us / results:,.0f} us"), each_us
                        )
                    )
                    audience.leave()
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    return rows


def run(quick: bool, recorded: bool) -> list[Table]:
    """The table of listeners."""
    listeners, results = (100, 50) if quick else (LISTENERS, RESULTS)
    with dragoman_server() as server:
        rows = asyncio.run(_measure(server.port, server.pid, listeners, results))
    columns = ("results", "speaker p50", "p99", "server's CPU a result")
    figures = Figures("Listeners of one session", ("", *columns, "a listener and result"))
    for row in rows:
        figures.rows.append((*row.shown, "" if row.each_us is None else f"{row.each_us:.1f} us"))
    costs = [row.each_us for row in rows if row.each_us is not None]
    figures.notes.append(
        f"To hold: at most {HOLD_US} us of the server's processor time for each listener and "
        f"result. {verdict(max(costs) <= HOLD_US)}. {SLOW} more listeners never read, and the "
        "others hear every result all the same."
    )
    if recorded:
        record("listeners", [figures], datetime.now(UTC).date())
    return [figures.drawn()]
