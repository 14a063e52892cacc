"""Operations of one turn of the event loop on one tag travel in one call."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from dragoman.errors import DependencyDown, InternalError
from dragoman.live.ledger.redis.connection import Call, Line
from dragoman.live.ledger.redis.scripts import SCRIPTS, Kind

Answer: TypeAlias = list[Any]
"""What an operation's Lua file says it answers."""

_IN_FLIGHT = 4
"""Calls on the way to one server at a time; what comes meanwhile goes together in the next."""

_REFUSED_WRITES = ("OOM", "MISCONF", "READONLY", "NOREPLICAS")
"""Codes with which a server says that it cannot store anything now."""

_pack = msgspec.msgpack.Encoder().encode


class Tag(msgspec.Struct, frozen=True):
    """One cell, one job shard or the directory: keys that live on one server."""

    kind: Kind
    name: str
    keys: tuple[bytes, ...]
    least_ttl_ms: int

    @classmethod
    def of(cls, kind: Kind, prefix: str, tag: str, least_ttl_ms: int) -> Tag:
        name = f"{prefix}:{{{tag}}}"
        keys = tuple(f"{name}:{key}".encode() for key in SCRIPTS[kind].keys)
        return cls(kind, name, keys, least_ttl_ms)


class _Waiting(msgspec.Struct):
    """An operation on its way, and who waits for it."""

    name: str
    arguments: Sequence[Any]
    blobs: tuple[bytes, ...]
    answer: asyncio.Future[Answer]
    asked_at: float


class Batcher:
    """Gathers operations and sends them, one call a tag, one exchange a server."""

    def __init__(
        self,
        line: Line,
        time_shift_ms: Callable[[], int] | None,
        on_answer: Callable[[str, float], None] | None = None,
    ) -> None:
        self._line = line
        self._time_shift_ms = time_shift_ms
        self._on_answer = on_answer
        self._queues: dict[str, tuple[Tag, list[_Waiting]]] = {}
        self._flushing = False
        self._in_flight: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self.operations: Counter[str] = Counter()
        self.calls = 0
        """Script runs, each with one or more operations."""
        self.exchanges = 0
        """Journeys to a server and back, each with one or more calls."""

    def submit(
        self, tag: Tag, name: str, arguments: Sequence[Any] = (), *blobs: bytes
    ) -> asyncio.Future[Answer]:
        """Send an operation with the others of this turn.

        The arguments must be text, numbers, booleans or lists of them; binary goes in blobs.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        waiting = _Waiting(name, arguments, blobs, future, loop.time())
        self.operations[name] += 1
        queue = self._queues.get(tag.name)
        if queue is None:
            self._queues[tag.name] = (tag, [waiting])
        else:
            queue[1].append(waiting)
        if not self._flushing:
            self._flushing = True
            loop.call_soon(self._flush)
        return future

    async def close(self) -> None:
        """Let go of the servers; whoever still waits is refused."""
        for _, queue in self._queues.values():
            _refuse(queue, "The ledger was closed.")
        self._queues.clear()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._line.close()

    def _flush(self) -> None:
        self._flushing = False
        lanes: dict[str, list[tuple[Tag, list[_Waiting]]]] = {}
        for name, queue in list(self._queues.items()):
            lane = self._line.lane(name)
            if self._in_flight[lane] < _IN_FLIGHT:
                lanes.setdefault(lane, []).append(queue)
                del self._queues[name]
        for lane, queues in lanes.items():
            self._in_flight[lane] += 1
            task = asyncio.get_running_loop().create_task(self._carry(lane, queues))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, lane: str, queues: list[tuple[Tag, list[_Waiting]]]) -> None:
        try:
            calls = [self._call(tag, queue) for tag, queue in queues]
            self.calls += len(calls)
            self.exchanges += 1
            replies = await self._line.send(lane, calls)
        except DependencyDown as error:
            for _, queue in queues:
                _refuse(queue, error.message)
            self._refuse_those_behind(lane, error.message)
        except BaseException:
            for _, queue in queues:
                _refuse(queue, "The call to Redis was broken off.")
            raise
        else:
            for (_, queue), reply in zip(queues, replies, strict=True):
                self._measure(queue)
                _hand_out(queue, reply)
        finally:
            self._in_flight[lane] -= 1
            if self._queues and not self._flushing:
                self._flush()

    def _measure(self, queue: list[_Waiting]) -> None:
        """Tell how long each operation took, its wait for the call included."""
        if self._on_answer is not None:
            now = asyncio.get_running_loop().time()
            for waiting in queue:
                self._on_answer(waiting.name, now - waiting.asked_at)

    def _call(self, tag: Tag, queue: list[_Waiting]) -> Call:
        shift_ms = self._time_shift_ms() if self._time_shift_ms else 0
        arguments = [
            _pack((shift_ms, tag.least_ttl_ms)),
            _pack([(waiting.name, waiting.arguments, len(waiting.blobs)) for waiting in queue]),
        ]
        for waiting in queue:
            arguments += waiting.blobs
        return Call(SCRIPTS[tag.kind], tag.keys, arguments)

    def _refuse_those_behind(self, lane: str, message: str) -> None:
        """What waited behind a call that timed out has waited long enough."""
        for name, (_, queue) in list(self._queues.items()):
            if self._line.lane(name) == lane:
                del self._queues[name]
                _refuse(queue, message)


def _hand_out(queue: list[_Waiting], reply: Any) -> None:
    if isinstance(reply, DependencyDown):
        _refuse(queue, reply.message)
        return
    for waiting, (fine, answer) in zip(queue, reply, strict=True):
        if waiting.answer.done():
            continue
        if fine:
            waiting.answer.set_result(answer)
            continue
        problem = answer.decode(errors="replace")
        if problem.startswith(_REFUSED_WRITES):
            waiting.answer.set_exception(DependencyDown(f"Redis cannot store anything: {problem}"))
        else:
            waiting.answer.set_exception(
                InternalError(f"The ledger operation {waiting.name} failed in Redis: {problem}")
            )


def _refuse(queue: list[_Waiting], message: str) -> None:
    for waiting in queue:
        if not waiting.answer.done():
            waiting.answer.set_exception(DependencyDown(message))
