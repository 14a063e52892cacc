"""A node's function, async or plain, as something the node can await."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias, cast

from dragoman.sdk.node.job import Answer, Job

WorkFunction: TypeAlias = Callable[[Job], Awaitable[Answer]] | Callable[[Job], Answer]
"""What a node owner writes."""

Work: TypeAlias = Callable[[Job], Coroutine[Any, Any, Answer]]


def as_work(function: WorkFunction) -> Work:
    """The function itself when it is async; otherwise one that runs it in a thread."""
    call = getattr(function, "__call__", None)  # noqa: B004 - an object may be callable, and async
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        return cast(Work, function)
    plain = cast(Callable[[Job], Answer], function)

    async def in_a_thread(job: Job) -> Answer:
        return await _run_in_thread(plain, job)

    return in_a_thread


async def _run_in_thread(function: Callable[[Job], Answer], job: Job) -> Answer:
    """Run a plain function without holding up the node.

    A thread cannot be cancelled, so a cancelled job goes on to take up its slot until the function
    returns; only being cancelled again, as when the process ends, leaves the thread behind. For
    the same reason the thread is a daemon's: it does not keep the process alive.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[Answer | None, BaseException | None]] = loop.create_future()

    def settle(answer: Answer | None, error: BaseException | None) -> None:
        if not ended.done():
            ended.set_result((answer, error))

    def work() -> None:
        answer: Answer | None = None
        raised: BaseException | None = None
        try:
            answer = function(job)
        except BaseException as error:
            raised = error
        try:
            loop.call_soon_threadsafe(settle, answer, raised)
        except RuntimeError:
            return  # the loop is closed, and nobody waits any more

    threading.Thread(target=work, name=f"job {job.job_id}", daemon=True).start()
    try:
        answer, error = await asyncio.shield(ended)
    except asyncio.CancelledError:
        await ended
        raise
    if error is not None:
        raise error
    return cast(Answer, answer)
