"""One open connection: messages go out through it, in order, and never make the sender wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from dragoman.ids import ConnectionId
from dragoman.live.gateway.limits import ConnectionLimits
from dragoman.live.gateway.wire import (
    CloseCode,
    Frame,
    Wire,
    WireClosed,
    fitting_reason,
    frame_bytes,
)
from dragoman.live.protocol import Message, SubProtocol, unencodable

Encode: TypeAlias = Callable[[Message], Frame]


class Connection:
    """The scheduler's end of a socket to a node or to a client.

    While the peer keeps up, a message goes straight to the transport. Once the transport has no
    room, messages queue up, and a task that exists only for that long sends them on.
    """

    __slots__ = (
        "_deadline",
        "_encode",
        "_limits",
        "_queue",
        "_wire",
        "_write_now",
        "_writer",
        "end",
        "id",
        "methods",
        "queued_bytes",
        "remote",
        "sub",
    )

    def __init__(
        self,
        connection_id: ConnectionId,
        *,
        remote: str,
        sub: SubProtocol,
        wire: Wire,
        limits: ConnectionLimits,
        encode: Encode,
    ) -> None:
        self.id = connection_id
        self.remote = remote
        self.sub = sub
        self.queued_bytes = 0
        self._wire = wire
        self._write_now = wire.write_now
        self._limits = limits
        self._encode = encode
        self._queue: deque[Frame] = deque()
        self._writer: asyncio.Task[None] | None = None
        self.end: WireClosed | None = None
        """How it ended; None while messages can be sent."""
        self._deadline: asyncio.TimerHandle | None = None
        self.methods: Mapping[type, Callable[..., Awaitable[None] | None]] = {}
        """What becomes of each type of message, once the handler has said so. Messages of other
        types go to its `received`."""

    @property
    def queued_messages(self) -> int:
        """Messages that wait for the peer to read."""
        return len(self._queue)

    def send(self, message: Message) -> bool:
        """Send a message without waiting; False when the connection is closed.

        True means that it is on its way, not that it arrived. A peer that lets more pile up than
        the limits allow is closed with TOO_SLOW.
        """
        if self.end is not None:
            return False
        try:
            frame = self._encode(message)
        except UnicodeEncodeError as error:
            raise unencodable(message) from error
        if self._writer is None and self._write_now(frame):
            return True
        return self._send_in_turn(frame)

    def send_frame(self, frame: Frame) -> bool:
        """Send what was encoded before, for many connections at once; as `send` otherwise."""
        if self.end is not None:
            return False
        if self._writer is None and self._write_now(frame):
            return True
        return self._send_in_turn(frame)

    def _send_in_turn(self, frame: Frame) -> bool:
        """Send a frame behind those that wait for room."""
        if self._writer is None:
            waiting = self._wire.write(frame)
            if waiting is not None:
                self._enqueue(frame, frame_bytes(frame))
                self._writer = asyncio.get_running_loop().create_task(self._drain(waiting))
            return True
        size = frame_bytes(frame)
        if (
            len(self._queue) >= self._limits.queue_messages
            or self.queued_bytes + size > self._limits.queue_bytes
        ):
            self._keep_only_first()
            self.close(CloseCode.TOO_SLOW, "messages are read more slowly than they come")
            return False
        self._enqueue(frame, size)
        return True

    def close(self, code: CloseCode, reason: str = "") -> None:
        """Close the connection, after what was sent before; closing again changes nothing.

        A peer that does not read gets `close_seconds` to do so, then the socket is dropped. What
        waits for one that is too slow is thrown away at once.
        """
        if self.end is not None:
            return
        self.end = WireClosed(code, fitting_reason(reason))
        self._deadline = asyncio.get_running_loop().call_later(
            self._limits.close_seconds, self._wire.abort
        )
        if self._writer is None:
            waiting = self._wire.close(self.end.code, self.end.reason)
            if waiting is not None:
                self._writer = asyncio.get_running_loop().create_task(_finish(waiting))

    async def ended(self, end: WireClosed) -> WireClosed:
        """Let go of everything, now that the transport is through; answers what ended it."""
        self.end = self.end or end
        if self._deadline is not None:
            self._deadline.cancel()
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait([self._writer])
            self._writer = None
        self._queue.clear()
        self.queued_bytes = 0
        # They lead to the handler, and the handler leads here.
        self.methods = {}
        return self.end

    def _enqueue(self, frame: Frame, size: int) -> None:
        self._queue.append(frame)
        self.queued_bytes += size

    def _keep_only_first(self) -> None:
        """Throw away what is queued, but for the frame that the transport already has."""
        first = self._queue[0]
        self._queue.clear()
        self.queued_bytes = 0
        self._enqueue(first, frame_bytes(first))

    async def _drain(self, waiting: Awaitable[None] | None) -> None:
        """Send what is queued; the frame that `waiting` is about stays first until it is out."""
        while self._queue:
            if waiting is not None:
                await waiting
            self.queued_bytes -= frame_bytes(self._queue.popleft())
            if self._queue:
                waiting = self._wire.write(self._queue[0])
        if self.end is None:
            self._writer = None
            return
        waiting = self._wire.close(self.end.code, self.end.reason)
        if waiting is not None:
            await waiting


async def _finish(waiting: Awaitable[None]) -> None:
    await waiting
