"""Many jobs in one call of a model: what they ask for is gathered for a moment."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar, cast

from dragoman.errors import SettingsError

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")

BatchFunction = (
    Callable[[Sequence[RequestT]], Awaitable[Sequence[ReplyT | Exception]]]
    | Callable[[Sequence[RequestT]], Sequence[ReplyT | Exception]]
)
"""Takes requests and returns as many replies, in order; an exception is the reply of one."""


def batched(
    *, max_size: int, max_wait_ms: float, max_batches: int = 1
) -> Callable[[BatchFunction[RequestT, ReplyT]], Callable[[RequestT], Coroutine[Any, Any, ReplyT]]]:
    """Decorate a function over a list, to be called with one request at a time.

    A batch is run when it holds `max_size` requests, or `max_wait_ms` after its first one. While
    `max_batches` are running, the next one goes on filling. A plain function runs in a thread.

        @batched(max_size=8, max_wait_ms=10)
        def translate(texts: Sequence[str]) -> list[str]:
            return model.translate(texts)

        async def work(job: Job) -> Answer:
            return Answer(text_translated=await translate(job.text or ""))
    """
    if max_size < 1 or max_batches < 1 or max_wait_ms < 0:
        raise SettingsError(
            f"`batched` was given max_size={max_size}, max_wait_ms={max_wait_ms}, "
            f"max_batches={max_batches}; sizes are at least 1, and a wait is not negative"
        )

    def decorate(
        function: BatchFunction[RequestT, ReplyT],
    ) -> Callable[[RequestT], Coroutine[Any, Any, ReplyT]]:
        batcher = Batcher(function, max_size, max_wait_ms / 1000, max_batches)

        async def one(request: RequestT) -> ReplyT:
            return await batcher.ask(request)

        one.__name__ = getattr(function, "__name__", "batched")
        one.__doc__ = function.__doc__
        return one

    return decorate


class _Asked(Generic[RequestT, ReplyT]):
    """A request, and where its reply is waited for."""

    __slots__ = ("reply", "request")

    def __init__(self, request: RequestT, reply: asyncio.Future[ReplyT]) -> None:
        self.request = request
        self.reply = reply


class Batcher(Generic[RequestT, ReplyT]):
    """Gathers requests into batches, on one event loop at a time."""

    def __init__(
        self,
        function: BatchFunction[RequestT, ReplyT],
        max_size: int,
        max_wait_seconds: float,
        max_batches: int,
    ) -> None:
        self._function = function
        self._max_size = max_size
        self._max_wait_seconds = max_wait_seconds
        self._max_batches = max_batches
        self._waiting: list[_Asked[RequestT, ReplyT]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False
        self._running: set[asyncio.Task[None]] = set()

    async def ask(self, request: RequestT) -> ReplyT:
        """The reply to one request; a request that is cancelled in time is never run."""
        loop = asyncio.get_running_loop()
        asked = _Asked[RequestT, ReplyT](request, loop.create_future())
        self._waiting.append(asked)
        if self._timer is None:
            self._timer = loop.call_later(self._max_wait_seconds, self._become_due)
        self._run_what_can()
        try:
            return await asked.reply
        except asyncio.CancelledError:
            if asked in self._waiting:
                self._waiting.remove(asked)
                self._forget_the_timer_of_nothing()
            raise

    def _become_due(self) -> None:
        self._is_due = True
        self._run_what_can()

    def _run_what_can(self) -> None:
        while self._waiting and len(self._running) < self._max_batches:
            if not self._is_due and len(self._waiting) < self._max_size:
                return
            batch = self._waiting[: self._max_size]
            del self._waiting[: self._max_size]
            # What is left waited as long as what was taken, or came while all was busy.
            self._is_due = self._is_due and bool(self._waiting)
            self._forget_the_timer_of_nothing()
            task = asyncio.get_running_loop().create_task(self._run(batch))
            self._running.add(task)
            task.add_done_callback(self._on_done)

    def _forget_the_timer_of_nothing(self) -> None:
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._is_due = False

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._run_what_can()

    async def _run(self, batch: list[_Asked[RequestT, ReplyT]]) -> None:
        try:
            replies = await self._called([asked.request for asked in batch])
            if len(replies) != len(batch):
                raise RuntimeError(
                    f"the batched function returned {len(replies)} replies to {len(batch)} requests"
                )
        except BaseException as error:
            for asked in batch:
                if not asked.reply.done():
                    if isinstance(error, asyncio.CancelledError):
                        asked.reply.cancel()
                    else:
                        asked.reply.set_exception(_own(error))
            if not isinstance(error, Exception):
                raise
            return
        for asked, reply in zip(batch, replies, strict=True):
            if asked.reply.done():
                continue  # its job was cancelled meanwhile
            if isinstance(reply, Exception):
                asked.reply.set_exception(reply)
            else:
                asked.reply.set_result(reply)

    async def _called(self, requests: Sequence[RequestT]) -> Sequence[ReplyT | Exception]:
        if inspect.iscoroutinefunction(self._function):
            replies = await self._function(requests)
        else:
            replies = await asyncio.to_thread(cast(Any, self._function), requests)
        return cast(Sequence[ReplyT | Exception], replies)


def _own(error: BaseException) -> BaseException:
    """The error for one of several who share it; raised by each, it would grow one traceback."""
    if isinstance(error, Exception):
        return error
    return RuntimeError(f"the batched function tried to end the program ({error!r})")
