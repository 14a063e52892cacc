"""Tasks that run beside the one that began them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class TaskSet:
    """Holds each task until it ends, because the event loop itself does not.

    `on_failure` is told the error of every task that fails. Without it the set looks at no task's
    end: that is left to the task's awaiter, or to asyncio, which reports it when it is collected.
    """

    def __init__(self, on_failure: Callable[[BaseException], None] | None = None) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._on_failure = on_failure

    def __len__(self) -> int:
        """How many have not ended."""
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin work in a task of its own."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until all have ended, those too that begin meanwhile, or until the time is over."""
        loop = asyncio.get_running_loop()
        until = None if seconds is None else loop.time() + seconds
        while self._tasks and (until is None or loop.time() < until):
            left = None if until is None else until - loop.time()
            await asyncio.wait(self._tasks, timeout=left)

    async def stop(self) -> None:
        """Cancel all, those too that begin meanwhile, and wait for their ends."""
        while self._tasks:
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if self._on_failure is None or task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._on_failure(error)
