"""Requests of one turn of the event loop travel to a server together."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import msgspec

from dragoman.errors import DependencyDown, DragomanError
from dragoman.redis_servers.line import Line, Request
from dragoman.redis_servers.servers import Reply

_IN_FLIGHT = 4
"""Exchanges with one server at a time; what comes meanwhile goes together in the next."""

_MOST_TOGETHER = 256
"""Requests in one exchange, so that a long queue does not outlast the time limit as a whole."""


class _Waiting(msgspec.Struct):
    """A request on its way, and who waits for it."""

    name: str
    request: Request
    reply: asyncio.Future[Reply]
    asked_at: float


class Caller:
    """Asks servers by tag; callers share connections and journeys without knowing it."""

    def __init__(self, line: Line, on_answer: Callable[[str, float], None] | None = None) -> None:
        """on_answer is told the name of each request that was answered, and its seconds."""
        self._line = line
        self._on_answer = on_answer
        self._queues: dict[str, list[_Waiting]] = {}
        self._flushing = False
        self._in_flight: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self.exchanges = 0
        """Journeys to a server and back, each with one or more requests."""

    def ask(self, tag: str, name: str, request: Request) -> asyncio.Future[Reply]:
        """Send a request to the server that holds a tag; refused with DependencyDown in time."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(name, request, loop.create_future(), loop.time())
        self._queues.setdefault(self._line.lane(tag), []).append(waiting)
        if not self._flushing:
            self._flushing = True
            loop.call_soon(self._flush)
        return waiting.reply

    async def close(self) -> None:
        """Let go of the servers; whoever still waits is refused."""
        for queue in self._queues.values():
            _refuse(queue, "The connection to Redis was closed.")
        self._queues.clear()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._line.close()

    def _flush(self) -> None:
        self._flushing = False
        for lane, queue in list(self._queues.items()):
            while queue and self._in_flight[lane] < _IN_FLIGHT:
                together, queue = queue[:_MOST_TOGETHER], queue[_MOST_TOGETHER:]
                self._in_flight[lane] += 1
                task = asyncio.get_running_loop().create_task(self._carry(lane, together))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            if queue:
                self._queues[lane] = queue
            else:
                del self._queues[lane]

    async def _carry(self, lane: str, together: list[_Waiting]) -> None:
        self.exchanges += 1
        try:
            replies = await self._line.send(lane, [waiting.request for waiting in together])
        except DependencyDown as error:
            # What waited behind an exchange that failed has waited long enough.
            _refuse([*together, *self._queues.pop(lane, [])], error.message)
        except BaseException:
            _refuse(together, "The call to Redis was broken off.")
            raise
        else:
            self._hand_out(together, replies)
        finally:
            self._in_flight[lane] -= 1
            if self._queues and not self._flushing:
                self._flush()

    def _hand_out(self, together: list[_Waiting], replies: list[Reply]) -> None:
        now = asyncio.get_running_loop().time()
        for waiting, reply in zip(together, replies, strict=True):
            if self._on_answer is not None:
                self._on_answer(waiting.name, now - waiting.asked_at)
            if waiting.reply.done():
                continue
            if isinstance(reply, DragomanError):
                waiting.reply.set_exception(reply)
            else:
                waiting.reply.set_result(reply)


def _refuse(queue: list[_Waiting], message: str) -> None:
    for waiting in queue:
        if not waiting.reply.done():
            waiting.reply.set_exception(DependencyDown(message))
