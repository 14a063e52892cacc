"""Two ways to bring frames to their handler: by asking for them, and as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from dragoman.live.gateway.arrivals import Arrivals
from dragoman.live.gateway.closing import Closed
from dragoman.live.gateway.frame_reader import FRAMES_PER_TURN
from dragoman.live.gateway.wire import Feed, Frame, Handle, Receive


def pulling(receive: Receive) -> Feed:
    """Ask for a frame, handle it, ask for the next."""

    async def feed(handle: Handle) -> Closed:
        frames = 0
        while True:
            frame = await receive()
            if isinstance(frame, Closed):
                return frame
            frames += 1
            if frames % FRAMES_PER_TURN == 0:
                await asyncio.sleep(0)
            waits = handle(frame)
            if waits is not None:
                await waits

    return feed


class Pushing:
    """Handles frames where they arrive, without a task, for as long as that need not wait.

    For handlers that seldom wait: waking a task for each frame costs as much as many of them do.
    """

    def __init__(
        self,
        arrivals: Arrivals,
        read: Callable[[Any], Frame | Closed],
        on_empty: Callable[[], None],
    ) -> None:
        self._arrivals = arrivals
        self._read = read
        self._on_empty = on_empty
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[Closed] = self._loop.create_future()
        self._handle: Handle | None = None
        self._busy = False
        self._waiting: asyncio.Task[None] | None = None

    async def feed(self, handle: Handle) -> Closed:
        self._handle = handle
        self._arrivals.on_arrival = self._came
        self._came()
        try:
            return await self._ended
        finally:
            self._busy = True
            if self._waiting is not None:
                self._waiting.cancel()
                await asyncio.wait([self._waiting])

    def _came(self) -> None:
        """Handle what is there, up to a frame that makes us wait or to the end of our turn."""
        handle = self._handle
        if self._busy or handle is None:
            return
        items = self._arrivals.items
        left = FRAMES_PER_TURN
        while items:
            if not left:
                self._busy = True
                self._loop.call_soon(self._go_on)
                return
            left -= 1
            frame = items.popleft()
            if type(frame) is not bytes and type(frame) is not str:
                frame = self._read(frame)
                if isinstance(frame, Closed):
                    self._busy = True
                    if not self._ended.done():
                        self._ended.set_result(frame)
                    return
            waits = handle(frame)
            if waits is not None:
                self._busy = True
                self._waiting = self._loop.create_task(self._finish(waits))
                return
        if self._arrivals.stalled:
            self._on_empty()

    async def _finish(self, waits: Awaitable[None]) -> None:
        await waits
        self._waiting = None
        self._go_on()

    def _go_on(self) -> None:
        if not self._ended.done():
            self._busy = False
            self._came()
