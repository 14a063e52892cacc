"""A node's function, async or plain, as something the node can await."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias, cast

from dragoman.errors import InvalidCapabilitySchema
from dragoman.sdk.node.job import Answer, Job, WrongAnswer
from dragoman.sdk.parameters import shortened

WorkFunction: TypeAlias = Callable[[Job], Awaitable[Answer]] | Callable[[Job], Answer]
"""What a node owner writes."""

Work: TypeAlias = Callable[[Job], Coroutine[Any, Any, Answer]]


def as_work(function: WorkFunction, parameter: str, *, threads: bool = True) -> Work:
    """The function as something to await: an async one as it is, another one in a thread.

    `parameter` is where the caller gave the function, for the error when it is none. Without
    `threads` a plain function runs on the event loop.
    """
    if not callable(function):
        raise InvalidCapabilitySchema(
            f"`{parameter}` is {type(function).__name__} {shortened(function)}; give a function"
            " that takes a Job and returns an Answer"
        )
    _check_takes_a_job(function, parameter)
    call = getattr(function, "__call__", None)  # noqa: B004 - an object may be callable, and async
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        running = cast(Work, function)

        async def work(job: Job) -> Answer:
            try:
                returned: object = await running(job)
            except SystemExit as error:
                raise _exited(error) from error
            return returned if isinstance(returned, Answer) else checked_answer(returned, function)

        return work
    plain = cast(Callable[[Job], Answer], function)

    async def in_a_thread(job: Job) -> Answer:
        returned: object = await _run_in_thread(plain, job) if threads else _run_here(plain, job)
        # Such as a lambda around an async function: the call only made the coroutine.
        if inspect.isawaitable(returned):
            returned = await returned
        return checked_answer(returned, function)

    return in_a_thread


def _check_takes_a_job(function: WorkFunction, parameter: str) -> None:
    """Refuse a function that cannot be called with a Job alone: each of its jobs would fail."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # as for some functions that are written in C
    try:
        signature.bind(None)
    except TypeError as error:
        name = getattr(function, "__name__", type(function).__name__)
        raise InvalidCapabilitySchema(
            f"`{parameter}` is {name}{signature}, which cannot be called with one Job ({error});"
            " give a function that takes a Job and returns an Answer"
        ) from None


def checked_answer(returned: object, function: object) -> Answer:
    """What a function returned, if that is an Answer."""
    if isinstance(returned, Answer):
        return returned
    name = getattr(function, "__name__", type(function).__name__)
    what = "None" if returned is None else f"{type(returned).__name__} {shortened(returned)}"
    raise WrongAnswer(
        f"{name} returned {what}; it must return an Answer, as in"
        " `return Answer(text_translated=...)`.",
        fault=f"{type(returned).__name__} returned by {name}",
    )


def _run_here(function: Callable[[Job], Answer], job: Job) -> Answer:
    try:
        return function(job)
    except (SystemExit, KeyboardInterrupt) as error:
        raise _exited(error) from error


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
            return  # the loop is closed, and no task waits any more

    threading.Thread(target=work, name=f"job {job.job_id}", daemon=True).start()
    try:
        answer, error = await asyncio.shield(ended)
    except asyncio.CancelledError:
        await ended
        raise
    if isinstance(error, SystemExit | KeyboardInterrupt):
        raise _exited(error) from error
    if error is not None:
        raise error
    return cast(Answer, answer)


def _exited(error: BaseException) -> RuntimeError:
    """What became of a function that ended the program: asyncio would end the whole node."""
    return RuntimeError(
        f"the function tried to end the program ({type(error).__name__}: {error});"
        " to end its job, it must return or raise another exception"
    )
