"""A ledger whose calls are counted, and can be held back or cut off one by one."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any

from dragoman.errors import DragomanError
from dragoman.live.shared import RedisSharedLedger
from dragoman.task_set import TaskSet

Meanwhile = Callable[[], Awaitable[None]]
Then = Callable[[Any, DragomanError | None], None]


class Stepping:
    """Between two calls of an operation anything may happen, also the end of its process."""

    def __init__(self, ledger: RedisSharedLedger) -> None:
        self._send: Callable[..., None] = ledger.caller.send
        ledger.caller.send = self._step  # type: ignore[method-assign]
        self.calls: list[str] = []
        """The calls of the last operation, in the order in which they were sent."""
        self._held_back: Collection[int] = ()
        self._meanwhile: Meanwhile | None = None
        self._sends_at_most: int | None = None
        self._sent: list[Future[None]] = []
        self._later = TaskSet()
        self._cut_off = asyncio.Event()

    async def run(self, operation: Coroutine[Any, Any, Any]) -> Any:
        """Carry an operation out and count its calls."""
        self.calls = []
        return await operation

    async def hold_back(
        self, numbers: Collection[int], operation: Coroutine[Any, Any, Any], meanwhile: Meanwhile
    ) -> Any:
        """Carry an operation out; before its calls with these numbers something else happens."""
        self._held_back, self._meanwhile = numbers, meanwhile
        try:
            return await self.run(operation)
        finally:
            self._held_back, self._meanwhile = (), None

    async def cut_off(self, number: int, operation: Coroutine[Any, Any, Any]) -> None:
        """Begin an operation; its process dies when it has sent so many calls.

        What was sent is carried out, and the answer to the last of them is never read.
        """
        if not number:
            operation.close()
            return
        self._sends_at_most, self._sent = number, []
        self._cut_off.clear()
        task = asyncio.ensure_future(self.run(operation))
        death = asyncio.ensure_future(self._cut_off.wait())
        try:
            await asyncio.wait((task, death), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.gather(*self._sent, return_exceptions=True)
        finally:
            for each in (task, death):
                each.cancel()
            await asyncio.gather(task, death, return_exceptions=True)
            self._sends_at_most = None

    def _step(self, tag: str, name: str, request: Any, then: Then) -> None:
        self.calls.append(name)
        number = len(self.calls)
        if self._sends_at_most is not None:
            if number <= self._sends_at_most:
                self._send_one_of(number, tag, name, request, then)
        elif number in self._held_back:
            self._later.spawn(self._send_later(tag, name, request, then))
        else:
            self._send(tag, name, request, then)

    def _send_one_of(self, number: int, tag: str, name: str, request: Any, then: Then) -> None:
        """Send a call; the answer to the last one is never read."""
        is_last = number == self._sends_at_most
        carried_out: Future[None] = asyncio.get_running_loop().create_future()
        self._sent.append(carried_out)

        def answered(reply: Any, error: DragomanError | None) -> None:
            carried_out.set_result(None)
            if not is_last:
                then(reply, error)

        self._send(tag, name, request, answered)
        if is_last:
            self._cut_off.set()

    async def _send_later(self, tag: str, name: str, request: Any, then: Then) -> None:
        assert self._meanwhile is not None
        await self._meanwhile()
        self._send(tag, name, request, then)
