"""Two ways to bring frames to their handler: by asking for them, and as they come."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from dragoman.live.gateway.frame_reader import FRAMES_PER_TURN
from dragoman.live.gateway.wire import Feed, Frame, Handle, Receive, WireClosed


class FrameQueue:
    """An asyncio.Queue for one reader, as far as a socket needs it, at a fraction of the price."""

    __slots__ = ("_loop", "_waiter", "items", "on_arrival", "stalled")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None
        self.items: deque[Any] = deque()
        self.stalled = False
        """The socket is not read until everything that came was handled."""
        self.on_arrival: Callable[[], None] = self._wake
        """Called when something came: wakes the reader, unless a consumer takes them from here."""

    def put_nowait(self, item: Any) -> None:
        self.items.append(item)
        self.on_arrival()

    async def get(self) -> Any:
        while not self.items:
            self._waiter = self._loop.create_future()
            await self._waiter
        return self.items.popleft()

    def empty(self) -> bool:
        return not self.items

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def pulling(receive: Receive) -> Feed:
    """Ask for a frame, handle it, ask for the next."""

    async def feed(handle: Handle) -> WireClosed:
        frames = 0
        while True:
            frame = await receive()
            if isinstance(frame, WireClosed):
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
    While none waits, the reader gives each message straight to the handler; otherwise messages
    queue up.
    """

    def __init__(
        self,
        arrivals: FrameQueue,
        read: Callable[[Any], Frame | WireClosed],
        on_empty: Callable[[], None],
        hand_to: Callable[[Handle], None],
    ) -> None:
        """hand_to tells the reader of frames where messages go from now on."""
        self._arrivals = arrivals
        self._hand_to = hand_to
        self._read = read
        self._on_empty = on_empty
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[WireClosed] = self._loop.create_future()
        self._handle: Handle | None = None
        self._busy = False
        self._waiting: asyncio.Task[None] | None = None

    async def feed(self, handle: Handle) -> WireClosed:
        self._handle = handle
        self._arrivals.on_arrival = self._came
        self._came()
        try:
            return await self._ended
        finally:
            self._hold()
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
                self._hold()
                self._loop.call_soon(self._go_on)
                return
            left -= 1
            frame = items.popleft()
            if type(frame) is not bytes and type(frame) is not str:
                frame = self._read(frame)
                if isinstance(frame, WireClosed):
                    self._hold()
                    if not self._ended.done():
                        self._ended.set_result(frame)
                    return
            waits = handle(frame)
            if waits is not None:
                self.wait(waits)
                return
        self._hand_to(handle)
        if self._arrivals.stalled:
            self._on_empty()

    def wait(self, waits: Awaitable[None]) -> None:
        """Go on when a message that has to wait for something is handled."""
        self._hold()
        self._waiting = self._loop.create_task(self._finish(waits))

    def _hold(self) -> None:
        """Let messages queue up."""
        self._busy = True
        self._hand_to(self._arrivals.items.append)

    async def _finish(self, waits: Awaitable[None]) -> None:
        await waits
        self._waiting = None
        self._go_on()

    def _go_on(self) -> None:
        if not self._ended.done():
            self._busy = False
            self._came()
