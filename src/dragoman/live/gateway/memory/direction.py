"""One way of a link: what goes in comes out later, in the same order."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable

from dragoman.live.gateway.wire import Frame, WireClosed, frame_bytes


class Direction:
    """Carries frames one way, with a delay each, and can be paused or made to lose everything.

    A delay drawn short does not let a frame overtake the one before it. As with a socket, there
    is a buffer: who writes has to wait while more than `buffer_bytes` were not read yet.
    """

    def __init__(self, draw_delay: Callable[[], float], buffer_bytes: int) -> None:
        self.on_end: Callable[[], None] = _nothing
        """Called when the reader's end learns that nothing more will come."""
        self.ended: WireClosed | None = None
        """What it learnt; frames that had arrived before can still be read."""
        self._draw_delay = draw_delay
        self._buffer_bytes = buffer_bytes
        self._loop = asyncio.get_running_loop()
        self._under_way: deque[Frame | WireClosed] = deque()
        self._last_arrival = 0.0
        self._due = 0  # how many of those under way would be there, were it not for the pause
        self._paused = False
        self._lossy = False
        self._arrived: asyncio.Queue[Frame | WireClosed] = asyncio.Queue()
        self._unread_bytes = 0
        self._room = asyncio.Event()
        self._room.set()

    @property
    def has_room(self) -> bool:
        """Whether one may write without waiting."""
        return self._room.is_set()

    async def wait_for_room(self) -> None:
        await self._room.wait()

    def put(self, item: Frame | WireClosed) -> None:
        """Send a frame, or the news that the sender closed, on its way."""
        self._count(item, +1)
        if self._lossy:
            return
        self._under_way.append(item)
        self._last_arrival = max(self._last_arrival, self._loop.time() + self._draw_delay())
        self._loop.call_at(self._last_arrival, self._arrive)

    async def get(self) -> Frame | WireClosed:
        """The next frame; when all are read and nothing more will come, the end, each time."""
        if self.ended is not None and self._arrived.empty():
            return self.ended
        item = await self._arrived.get()
        self._count(item, -1)
        return item

    def pause(self) -> None:
        """Hold frames back, until `resume`."""
        self._paused = True

    def resume(self) -> None:
        """Let go on what was held back, in its order."""
        self._paused = False
        due, self._due = self._due, 0
        for _ in range(due):
            self._arrive()

    def lose(self) -> None:
        """Lose what is under way and whatever comes; the sender does not notice."""
        self._lossy = True
        self._under_way.clear()

    def end(self, end: WireClosed) -> None:
        """Let the reader know, at once, that nothing more will come."""
        self.lose()
        self._deliver(end)

    def release(self) -> None:
        """Let writers go on for good: there is no reader left to wait for."""
        self._buffer_bytes = sys.maxsize
        self._room.set()

    def _arrive(self) -> None:
        if self._paused:
            self._due += 1
        elif self._under_way:
            self._deliver(self._under_way.popleft())

    def _deliver(self, item: Frame | WireClosed) -> None:
        if self.ended is not None:
            return
        self._arrived.put_nowait(item)
        if isinstance(item, WireClosed):
            self.ended = item
            self.on_end()

    def _count(self, item: Frame | WireClosed, sign: int) -> None:
        if isinstance(item, WireClosed):
            return
        self._unread_bytes += sign * frame_bytes(item)
        if self._unread_bytes > self._buffer_bytes:
            self._room.clear()
        else:
            self._room.set()


def _nothing() -> None:
    """No callback is set."""
