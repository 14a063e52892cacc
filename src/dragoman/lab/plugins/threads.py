"""Threads for functions that block: as many as are needed, none waited for once given up.

An executor of the standard library waits for its threads when the program ends. A user's function
may hang for ever, so these threads are daemons, and one that is given up is replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

T = TypeVar("T")


class Threads:
    """Runs blocking calls, each on a thread of its own for as long as it takes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._idle: list[_Hand] = []
        self._closed = False
        self._lock = Lock()

    async def run(self, function: Callable[[], T]) -> T:
        """Returns or raises what the function does.

        When the caller is cancelled the thread is abandoned: it cannot be stopped, but what it
        comes back with goes nowhere.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[T] = loop.create_future()
        call = _Call(copy_context().run, function, ended, loop)
        with self._lock:
            hand = self._idle.pop() if self._idle else _Hand(self._name, self._done)
        hand.calls.put(call)
        return await ended

    def close(self) -> None:
        """Let idle threads end; busy ones end when their function returns."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for hand in idle:
            hand.calls.put(None)

    def _done(self, hand: _Hand) -> bool:
        """Called by a thread that has nothing to do; False when it should end."""
        with self._lock:
            if not self._closed:
                self._idle.append(hand)
            return not self._closed


class _Call:
    """One function on its way through a thread."""

    def __init__(
        self,
        run: Callable[..., Any],
        function: Callable[[], Any],
        ended: asyncio.Future[Any],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._run = run
        self._function = function
        self._ended = ended
        self._loop = loop

    def carry_out(self) -> Callable[[], None]:
        """Run the function, and return how its end is told."""
        try:
            value = self._run(self._function)
        except BaseException as error:
            told = bearable(error)
            return lambda: self._tell(self._ended.set_exception, told)
        return lambda: self._tell(self._ended.set_result, value)

    def _tell(self, settle: Callable[[Any], None], result: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(self._settle, settle, result)
        except RuntimeError:
            # The loop is closed: the call was abandoned and the program went on, or ended.
            return

    def _settle(self, settle: Callable[[Any], None], result: Any) -> None:
        if not self._ended.done():
            settle(result)


def bearable(error: BaseException) -> Exception:
    """The error as it can be awaited: `exit()`, say, ends the call and not the event loop."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")


class _Hand:
    """A thread that takes one call after the other."""

    def __init__(self, name: str, done: Callable[[_Hand], bool]) -> None:
        self.calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._done = done
        Thread(target=self._work, name=name, daemon=True).start()

    def _work(self) -> None:
        while (call := self.calls.get()) is not None:
            tell = call.carry_out()
            # Idle before its answer is out, so that the next call finds this thread and makes none.
            stays = self._done(self)
            tell()
            if not stays:
                return
