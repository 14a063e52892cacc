"""What a driver counts."""

from __future__ import annotations

import time
from collections import Counter

from benchmarks.full_job.frames import Told
from benchmarks.full_job.load import FrameSizes
from benchmarks.full_job.websocket import Socket


class Tally:
    """Jobs that came back, the frames of their lives, and the first thing that went wrong."""

    def __init__(self) -> None:
        self.jobs = 0
        self.held = 0
        """Jobs that nodes began and do not mean to end."""
        self.chunks = 0
        self.spoken_at: dict[tuple[str, int], float] = {}
        """When the last chunk of an utterance was sent, until its node hears of it."""
        self.waits: list[float] = []
        """From there to the node's job_assign, in seconds."""
        self._problem: str | None = None
        self._frames: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._sockets: list[Socket] = []

    def saw(self, kind: str, payload: bytes) -> None:
        """A frame came or went."""
        self._frames[kind] += 1
        self._bytes[kind] += len(payload)

    def assigned(self, told: Told) -> None:
        """A node heard of a job."""
        if self.spoken_at and told.utterance_index is not None:
            spoken_at = self.spoken_at.pop((told.session_id, told.utterance_index), None)
            if spoken_at is not None:
                self.waits.append(time.monotonic() - spoken_at)

    def watch(self, socket: Socket) -> None:
        """A socket that ends is a failure."""
        self._sockets.append(socket)

    def failed(self, told: Told) -> None:
        self._problem = self._problem or f"{told.kind} {told.code} {told.message}"

    def problem(self) -> str | None:
        """What went wrong, if anything did."""
        lost = (socket.closed_because for socket in self._sockets if socket.closed_because)
        return self._problem or next(lost, None)

    def sizes(self) -> FrameSizes | None:
        """The average frames; None when not every kind was seen."""
        kinds = FrameSizes.__struct_fields__
        if not all(self._frames[kind] for kind in kinds):
            return None
        return FrameSizes(*(self._bytes[kind] // self._frames[kind] for kind in kinds))

    def close(self) -> None:
        for socket in self._sockets:
            socket.close()
