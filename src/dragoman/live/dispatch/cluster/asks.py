"""Questions to what instances share: asked until they are answered, beside the walk of a job."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from dragoman.clock import Clock
from dragoman.errors import DependencyDown
from dragoman.ids import AttemptId
from dragoman.live.dispatch.cells import SlotRules
from dragoman.live.ledger import Freed, Keep
from dragoman.live.shared import SharedLedger, hot_of
from dragoman.live.shared import records as r
from dragoman.observability import get_logger

log = get_logger("dragoman.dispatch")

T = TypeVar("T")

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0
"""Between two tries of a step that must be carried out."""

_SETTLE_SECONDS = 0.02
"""How long a cell is left with results that their jobs have, so that many are settled at once."""

MOST_TOGETHER = 24
"""Steps that are tried again, or for jobs that look again, and are under way at a time."""


class SharedTerms(msgspec.Struct, frozen=True):
    """How slots are granted and how long things are remembered; from the settings."""

    slots: SlotRules
    keep: Keep
    claim_ms: int
    """How long an instance drives a job without renewing its claim."""
    ack_ms: int
    lease_ms: int
    run_ms: int
    total_ms: int
    tombstone_ms: int
    """How long a cell remembers an attempt that is over, so that no late step revives it."""
    young_ms: int = 0
    """Until when a note of a new attempt need not be doubted."""


class SharedAsks:
    """Asks what instances share. A step whose answer did not come is asked again until it does:
    every one of them may be repeated."""

    def __init__(self, shared: SharedLedger, terms: SharedTerms, clock: Clock) -> None:
        self.shared = shared
        self.terms = terms
        self.clock = clock
        self.origin_ms = clock.now_ms() - int(clock.monotonic() * 1000)
        """When the monotonic clock was 0, by this machine's clock as it was at the start."""
        self.on_freed: Callable[[Freed], None] = lambda freed: None
        """Told of slots that came free after the step that freed them had been answered for."""
        self.turns = asyncio.Semaphore(MOST_TOGETHER)
        self._tasks: set[asyncio.Task[None]] = set()
        self._to_settle: dict[int, list[AttemptId]] = {}
        self.closed = False
        """The instance stops: answers that still come are for the next one to find out."""
        self.hot = hot_of(shared, self.spawn)

    def now_ms(self, now: float) -> int:
        return self.origin_ms + int(now * 1000)

    async def insist(self, ask: Callable[[], Awaitable[T]], failed: Exception | None = None) -> T:
        """Ask until there is an answer; failed is why there was none when it was asked before."""
        pause = FIRST_PAUSE_SECONDS
        try:
            if failed is not None:
                raise failed
            return await ask()
        except DependencyDown as down:
            if self.closed:
                raise
            _not_answered(down)
        while True:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            try:
                async with self.turns:
                    return await ask()
            except DependencyDown as down:
                if self.closed:
                    raise
                _not_answered(down)

    def give_back(self, cell: int, attempt_id: AttemptId) -> None:
        """Give back a slot whose node was never told, whether or not it is held."""
        self.spawn(self._dropped(cell, attempt_id))

    async def _dropped(self, cell: int, attempt_id: AttemptId) -> None:
        tombstone_ms = self.terms.tombstone_ms
        answer = await self.insist(
            lambda: self.shared.drop(cell, attempt_id, tombstone_ms=tombstone_ms)
        )
        if isinstance(answer, r.FreedSlot):
            self.on_freed(freed_of(answer))

    def settle(self, cell: int, attempt_id: AttemptId) -> None:
        """The result of an attempt is with its job: the cell may forget it."""
        settled = self._to_settle.get(cell)
        if settled is None:
            self._to_settle[cell] = settled = []
            asyncio.get_running_loop().call_later(_SETTLE_SECONDS, self._settle_all, cell)
        settled.append(attempt_id)

    def _settle_all(self, cell: int) -> None:
        self.spawn(self._settle(cell, tuple(self._to_settle.pop(cell))))

    async def _settle(self, cell: int, attempt_ids: tuple[AttemptId, ...]) -> None:
        await self.insist(lambda: self.shared.settle(cell, attempt_ids))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the walk; not when the instance stops."""
        if self.closed:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def stop(self) -> None:
        """Let go of what is under way: another instance takes it up."""
        self.closed = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, DependencyDown):
            log.error("dispatch_task_failed", error=repr(error), exc_info=error)


def _not_answered(down: DependencyDown) -> None:
    log.warning_limited("step_not_stored", key="ledger", every_seconds=10, error=down.message)


def freed_of(freed: r.FreedSlot) -> Freed:
    """What came free, as the driver is told."""
    return Freed(freed.slots, freed.inherited, () if freed.wake is None else (freed.wake,))
