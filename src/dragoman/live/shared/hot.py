"""The four operations that every job takes, answered through a callback.

A ledger that can pass an answer on where it is read has them as `hot`. For any other, the
coroutines of its interface are run in tasks, with the same effect.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from dragoman.ids import AttemptId
from dragoman.live.ledger import Cold, Sender, Stale
from dragoman.live.shared import records as r
from dragoman.live.shared.interface import SharedLedger

T = TypeVar("T")

Then: TypeAlias = Callable[[T | None, Exception | None], None]
"""Called once: with the answer, or with the error that the coroutine would raise."""

AfterOpen: TypeAlias = Then[r.Opened | r.Behind | r.NotOwner]
AfterClose: TypeAlias = Then[r.Closed | r.NotCurrent | r.HasEnded | r.NoJob]
AfterReserve: TypeAlias = Then[r.Granted | r.Full | r.Gone]
AfterFree: TypeAlias = Then[r.FreedSlot | r.LateFinish | Stale | Cold]

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], None]


class HotOperations(Protocol):
    """As the operations of `Shards` and `Cells` with the same names."""

    def open(self, opening: r.UtteranceOpening, then: AfterOpen) -> None: ...
    def close(self, closing: r.Closing, then: AfterClose) -> None: ...
    def reserve(self, ask: r.SlotAsk, then: AfterReserve) -> None: ...
    def finish(
        self, cell: int, attempt_id: AttemptId, sender: Sender, finish: r.Finish, then: AfterFree
    ) -> None: ...


def hot_of(shared: SharedLedger, spawn: Spawn) -> HotOperations:
    """A ledger's own, or its coroutines in tasks that are begun with `spawn`."""
    # Its own alone: a wrapper that passes names on must see every operation.
    own = inspect.getattr_static(shared, "hot", None)
    return AwaitedOperations(shared, spawn) if own is None else cast(HotOperations, own)


class AwaitedOperations:
    """Awaits the coroutines of a ledger, each in a task."""

    def __init__(self, shared: SharedLedger, spawn: Spawn) -> None:
        self._shared = shared
        self._spawn = spawn

    def open(self, opening: r.UtteranceOpening, then: AfterOpen) -> None:
        self._spawn(tell(partial(self._shared.open, opening), then))

    def close(self, closing: r.Closing, then: AfterClose) -> None:
        self._spawn(tell(partial(self._shared.close, closing), then))

    def reserve(self, ask: r.SlotAsk, then: AfterReserve) -> None:
        self._spawn(tell(partial(self._shared.reserve, ask), then))

    def finish(
        self, cell: int, attempt_id: AttemptId, sender: Sender, finish: r.Finish, then: AfterFree
    ) -> None:
        self._spawn(tell(partial(self._shared.finish, cell, attempt_id, sender, finish), then))


async def tell(ask: Callable[[], Awaitable[T]], then: Then[T]) -> None:
    """Await an answer, and pass it on."""
    try:
        answer = await ask()
    except Exception as error:
        then(None, error)
    else:
        then(answer, None)


async def awaited(ask: Callable[[Then[T]], None]) -> T:
    """Wait for what is answered through a callback."""
    waiting: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    ask(partial(_settle, waiting))
    return await waiting


def _settle(waiting: asyncio.Future[T], answer: T | None, error: Exception | None) -> None:
    if waiting.done():
        return
    if error is not None:
        waiting.set_exception(error)
    else:
        waiting.set_result(cast(T, answer))
