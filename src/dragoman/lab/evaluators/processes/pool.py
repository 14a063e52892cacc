"""A few processes for many calls. Each call has a process to itself while it lasts.

So it is known which call a process died of: that one fails, the others never notice. And a call
that is given up is really stopped, together with its process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from dragoman.lab.evaluators.processes.child import ChildCall, frame
from dragoman.lab.evaluators.processes.process import Process, ProcessEnded
from dragoman.lab.failures import EvaluatorFailure


class FunctionProcessPool:
    """Calls functions in up to `size` processes, which are started when they are needed."""

    def __init__(self, size: int | None = None) -> None:
        self._places = asyncio.Semaphore(size or os.cpu_count() or 1)
        self._processes: set[Process] = set()
        self._idle: list[Process] = []
        self._closed = False

    @property
    def place(self) -> asyncio.Semaphore:
        """A place for a process that an evaluator starts itself: all together are as many."""
        return self._places

    async def call(self, function: str, arguments: Mapping[str, Any]) -> Any:
        """What ``module:function`` returns; `EvaluatorFailure` with what it raised or died of."""
        asked = _framed(function, arguments)
        async with self._places:
            process = await self._take()
            try:
                answer = await process.ask(asked)
            except ProcessEnded as end:
                raise EvaluatorFailure(
                    f"The process that ran `{function}` ended before it answered ({end})."
                ) from None
            except BaseException:
                process.kill()
                raise
            self._idle.append(process)
        if answer.error is not None:
            raise EvaluatorFailure(f"`{function}` raised {answer.error}")
        return answer.value

    async def close(self) -> None:
        """End every process, also those at work, whose calls fail."""
        self._closed = True
        for process in list(self._processes):
            await process.stop()

    async def _take(self) -> Process:
        self._forget_the_dead()
        if self._idle:
            return self._idle.pop()
        process = await Process.start()
        self._processes.add(process)
        if self._closed:
            await process.stop()
            raise EvaluatorFailure("The lab is closing.")
        return process

    def _forget_the_dead(self) -> None:
        """Skip a process that ended while idle: no call caused that."""
        for process in [process for process in self._processes if not process.alive]:
            process.kill()
            self._processes.discard(process)
        self._idle = [process for process in self._idle if process in self._processes]


def _framed(function: str, arguments: Mapping[str, Any]) -> bytes:
    try:
        return frame(ChildCall(function, dict(arguments)))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise EvaluatorFailure(
            f"`{function}` has arguments that cannot be sent to its process: {error}",
            retryable=False,
        ) from None
