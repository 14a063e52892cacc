"""Finding a slot on Redis: cell by cell where there may be room, all at once where not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dragoman.errors import DependencyDown
from dragoman.ids import AttemptId, JobId
from dragoman.live.ledger import answers as a
from dragoman.live.ledger.asks import SlotAsk
from dragoman.live.ledger.redis import forms
from dragoman.live.ledger.redis.seats import candidate_bytes
from dragoman.live.ledger.redis.tags import Answer, Tags
from dragoman.live.ledger.redis.whereabouts import Whereabouts
from dragoman.live.ledger.states import Strategy
from dragoman.live.protocol import RunningJob

_TRIED_ONE_BY_ONE = 2
"""Cells asked for a slot outright; the others are looked at first, many at a time."""

_LOOKED_AT_TOGETHER = 64


class GrantOperations:
    """The part of the ledger that gives slots away."""

    _tags: Tags
    _where: Whereabouts

    async def reserve(self, ask: SlotAsk) -> a.Granted | a.Full | a.Gone:
        arguments = self._arguments(ask)
        order = self._where.order(ask.attempt_id, ask.cells)
        refused: dict[int, bytes] = {}
        for cell, mask in order[:_TRIED_ONE_BY_ONE]:
            answer = await self._ask_for_slot(cell, "reserve", arguments, mask)
            granted = await self._granted(ask, cell, answer)
            if granted is not None:
                return granted
            refused[cell] = answer[0]
        rest = order[_TRIED_ONE_BY_ONE:]
        for start in range(0, len(rest), _LOOKED_AT_TOGETHER):
            group = rest[start : start + _LOOKED_AT_TOGETHER]
            looks = await asyncio.gather(
                *(self._ask_for_slot(cell, "peek", arguments, mask) for cell, mask in group)
            )
            for (cell, mask), look in zip(group, looks, strict=True):
                refused[cell] = look[0]
                if look[0] != b"room":
                    continue
                answer = await self._ask_for_slot(cell, "reserve", arguments, mask)
                granted = await self._granted(ask, cell, answer)
                if granted is not None:
                    return granted
                refused[cell] = answer[0]
        return a.Full(
            tuple(cell for cell, _ in ask.cells if refused[cell] == b"cold"),
            b"headroom" in refused.values(),
        )

    async def preempt(self, ask: SlotAsk) -> a.Preempting | a.Granted | a.NoVictim | a.Gone:
        if self._where.cell_of(ask.attempt_id) is None:
            found = await self.reserve(ask)
            if not isinstance(found, a.Full):
                return found
        arguments = (*self._arguments(ask), ask.max_preemptions, ask.grace_ms)
        for cell, mask in self._where.order(ask.attempt_id, ask.cells):
            answer = await self._ask_for_slot(cell, "preempt", arguments, mask)
            if answer[0] == b"preempting":
                self._where.remember(ask.attempt_id, cell)
                _, job_id, attempt_id, owner, at_ms = answer
                victim = RunningJob(JobId(job_id.decode()), AttemptId(attempt_id.decode()))
                return a.Preempting(cell, victim, *forms.owner_in(owner), at_ms)
            granted = await self._granted(ask, cell, answer)
            if granted is not None:
                return granted
        return a.NoVictim()

    async def _ask_for_slot(
        self, cell: int, name: str, arguments: Sequence[object], mask: int
    ) -> Answer:
        try:
            return await self._tags.ask_cell(cell, name, arguments, candidate_bytes(mask))
        except DependencyDown:
            if name != "peek":
                # Perhaps it was granted: the next ask must go there first.
                self._where.remember(AttemptId(str(arguments[1])), cell)
            raise

    async def _granted(self, ask: SlotAsk, cell: int, answer: Answer) -> a.Granted | a.Gone | None:
        """What the cell gave; None when it refused."""
        match answer[0]:
            case b"granted":
                before = self._where.cell_of(ask.attempt_id)
                if len(ask.cells) > 1 or before is not None:
                    self._where.remember(ask.attempt_id, cell)
                self._where.has_room(cell)
                if before is not None and before != cell:
                    # It may have been an heir elsewhere: no attempt holds two slots.
                    await self._tags.ask_cell(before, "drop", (ask.attempt_id,))
                _, index, owner, at_ms = answer
                return a.Granted(cell, index, *forms.owner_in(owner), at_ms)
            case b"gone":
                return a.Gone()
        self._where.is_full(cell)
        return None

    def _arguments(self, ask: SlotAsk) -> tuple[object, ...]:
        chance = self._tags.random.random
        # A random choice looks at a few seats blindly before it looks at all of them.
        draws = 4 if ask.strategy is Strategy.RANDOM else 2
        chances = [chance() for _ in range(draws)]
        return (
            ask.job_id,
            ask.attempt_id,
            ask.job_class.value,
            ask.ack_ms,
            ask.lease_ms,
            ask.run_ms,
            ask.strategy.value,
            ask.headroom,
            ask.preemptions,
            chances,
        )
