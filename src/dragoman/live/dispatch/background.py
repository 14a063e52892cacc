"""Work that goes on beside the task that began it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any

from dragoman.eager import begin
from dragoman.errors import DependencyDown
from dragoman.observability import get_logger

log = get_logger("dragoman.dispatch")


class Background:
    """Runs things beside; a failure is logged, and the sweep repairs what it left."""

    def __init__(self, *, at_once: bool) -> None:
        """at_once: nothing ever waits for the ledger, so that most work ends where it begins."""
        self._at_once = at_once
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside, unless everything has been stopped."""
        if self._stopped:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something at once as far as it gets, where the ledger answers at once."""
        if not self._at_once:
            self.spawn(work)
            return
        try:
            rest = begin(work)
        except Exception as error:
            _log_failure(error)
            return
        if rest is not None:
            self.spawn(_awaited(rest))

    async def stop(self) -> None:
        self._stopped = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _log_failure(error)


def _log_failure(error: BaseException) -> None:
    if isinstance(error, DependencyDown):
        log.warning_limited(
            "dispatch_interrupted", key="ledger", every_seconds=10, error=error.message
        )
    else:
        log.error("dispatch_task_failed", error=repr(error))


async def _awaited(rest: Awaitable[None]) -> None:
    await rest
