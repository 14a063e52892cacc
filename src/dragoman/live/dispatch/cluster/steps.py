"""How far nodes say they are: of steps that come close together, the cells hear the last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from dragoman.errors import DependencyDown
from dragoman.ids import AttemptId
from dragoman.live.dispatch.cluster.ledger import ClusterLedger
from dragoman.live.dispatch.job import Step
from dragoman.live.ledger import Sender
from dragoman.live.protocol import AttemptState
from dragoman.live.shared import records as r

TOGETHER_SECONDS = 0.02
"""A step this much later is of no use, and most nodes report the next one before."""

_STATES = {Step.ACCEPTED: AttemptState.ACCEPTED, Step.RUNNING: AttemptState.RUNNING}


class TransitionBuffer:
    """Keeps steps for a moment: the next one says as much, and a result says it all."""

    def __init__(
        self, ledger: ClusterLedger, on_lost: Callable[[int, AttemptId], Coroutine[Any, Any, None]]
    ) -> None:
        """on_lost is told of attempts that hold no slot any more."""
        self._ledger = ledger
        self._on_lost = on_lost
        self._kept: dict[int, dict[AttemptId, r.Step]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def say(
        self, cell: int, sender: Sender, attempt_id: AttemptId, step: Step, number: int
    ) -> None:
        """Tell the cell soon."""
        kept = self._kept.get(cell)
        if kept is None:
            kept = self._kept[cell] = {}
            asyncio.get_running_loop().call_later(TOGETHER_SECONDS, self._flush, cell)
        kept[attempt_id] = r.Step(attempt_id, sender.node_id, sender.epoch, _STATES[step], number)

    def over(self, cell: int, attempt_id: AttemptId) -> None:
        """The attempt has its result: the cell need not hear of its steps."""
        kept = self._kept.get(cell)
        if kept is not None:
            kept.pop(attempt_id, None)

    def _flush(self, cell: int) -> None:
        kept = self._kept.pop(cell)
        if kept:
            task = asyncio.get_running_loop().create_task(self._tell(cell, tuple(kept.values())))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _tell(self, cell: int, steps: tuple[r.Step, ...]) -> None:
        try:
            lost = await self._ledger.insist(lambda: self._ledger.shared.step(cell, steps))
        except DependencyDown:
            return
        if lost and await self._is_cold(cell):
            return  # It lost its memory; its nodes say what they run.
        for attempt_id in lost:
            await self._on_lost(cell, attempt_id)

    async def _is_cold(self, cell: int) -> bool:
        try:
            return await self._ledger.shared.cell_version(cell) is None
        except DependencyDown:
            return True

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
