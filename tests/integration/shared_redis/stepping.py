"""A ledger whose calls are counted, and can be held back or cut off one by one."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any

from dragoman.live.shared import RedisSharedLedger

Meanwhile = Callable[[], Awaitable[None]]


class Stepping:
    """Between two calls of an operation anything may happen, also the end of its process."""

    def __init__(self, ledger: RedisSharedLedger) -> None:
        self._send: Callable[..., Future[Any]] = ledger.caller.ask
        ledger.caller.ask = self._ask  # type: ignore[method-assign]
        self.calls: list[str] = []
        """The calls of the last operation, in the order in which they were sent."""
        self._held_back: Collection[int] = ()
        self._meanwhile: Meanwhile | None = None
        self._sends_at_most: int | None = None
        self._sent: list[Future[Any]] = []
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
        self._sends_at_most, self._sent = number, []
        self._cut_off.clear()
        task = asyncio.ensure_future(self.run(operation))
        death = asyncio.ensure_future(self._cut_off.wait())
        try:
            if number:
                await asyncio.wait((task, death), return_when=asyncio.FIRST_COMPLETED)
                await asyncio.gather(*self._sent, return_exceptions=True)
        finally:
            for each in (task, death):
                each.cancel()
            await asyncio.gather(task, death, return_exceptions=True)
            self._sends_at_most = None

    def _ask(self, tag: str, name: str, request: Any) -> Future[Any]:
        self.calls.append(name)
        number = len(self.calls)
        if self._sends_at_most is not None:
            never: Future[Any] = asyncio.get_running_loop().create_future()
            if number > self._sends_at_most:
                return never
            self._sent.append(self._send(tag, name, request))
            if number == self._sends_at_most:
                self._cut_off.set()
                return never
            return self._sent[-1]
        if number in self._held_back:
            return asyncio.ensure_future(self._later(tag, name, request))
        return self._send(tag, name, request)

    async def _later(self, tag: str, name: str, request: Any) -> Any:
        assert self._meanwhile is not None
        await self._meanwhile()
        return await self._send(tag, name, request)
