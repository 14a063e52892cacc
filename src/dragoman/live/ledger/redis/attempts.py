"""Attempts on Redis: slots with a lease."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dragoman.ids import AttemptId, JobId
from dragoman.live.ledger import answers as a
from dragoman.live.ledger.asks import Adoption, Ending, Sender
from dragoman.live.ledger.records import AttemptRecord
from dragoman.live.ledger.redis import forms
from dragoman.live.ledger.redis.seats import refusal
from dragoman.live.ledger.redis.tags import Answer, Tags
from dragoman.live.ledger.redis.whereabouts import Whereabouts
from dragoman.live.protocol import AttemptState, ErrorInfo, Outcome


class AttemptOperations:
    """The part of the ledger that an attempt goes through once it has its slot."""

    _tags: Tags
    _where: Whereabouts

    async def transition(
        self,
        cell: int,
        attempt_id: AttemptId,
        sender: Sender,
        to: AttemptState,
        *,
        number: int = 0,
    ) -> a.Moved | a.Repeat | a.Stale | a.Cold:
        answer = await self._tags.ask_cell(
            cell, "transition", (attempt_id, sender.node_id, sender.epoch, to.value, number)
        )
        match answer[0]:
            case b"moved":
                return a.Moved(JobId(answer[1].decode()), answer[2])
            case b"repeat":
                return a.Repeat(JobId(answer[1].decode()), answer[2])
        return _stale_or_cold(cell, answer)

    async def finish(
        self, cell: int, attempt_id: AttemptId, sender: Sender, ending: Ending, *, due_ms: int
    ) -> a.Finished | a.LateFinish | a.Stale | a.Cold:
        answer = await self._tags.ask_cell(
            cell,
            "finish",
            (
                attempt_id,
                sender.node_id,
                sender.epoch,
                ending.outcome.value,
                forms.error_text(ending.error),
                due_ms,
            ),
            forms.result_blob(ending.output),
        )
        match answer[0]:
            case b"finished":
                freed = self._freed(cell, answer[2], answer[3])
                return a.Finished(JobId(answer[1].decode()), freed, answer[4])
            case b"late":
                return a.LateFinish(
                    JobId(answer[1].decode()), self._freed(cell, answer[2], answer[3])
                )
        return _stale_or_cold(cell, answer)

    async def cancel(
        self, cell: int, attempt_id: AttemptId, error: ErrorInfo, *, grace_ms: int
    ) -> a.CancelWon | a.AlreadyEnded | a.Stale | a.Cold:
        answer = await self._tags.ask_cell(
            cell, "cancel", (attempt_id, forms.error_text(error), grace_ms)
        )
        match answer[0]:
            case b"won":
                return a.CancelWon(JobId(answer[1].decode()), *forms.owner_in(answer[2]))
            case b"ended":
                return a.AlreadyEnded(
                    JobId(answer[1].decode()),
                    Outcome(answer[2].decode()),
                    forms.error_in(answer[3]),
                )
        return _stale_or_cold(cell, answer)

    async def drop(self, cell: int, attempt_id: AttemptId) -> a.Dropped | a.Stale | a.Cold:
        answer = await self._tags.ask_cell(cell, "drop", (attempt_id,))
        if answer[0] != b"dropped":
            return _stale_or_cold(cell, answer)
        self._where.forget(attempt_id, cell)
        return a.Dropped(self._freed(cell, answer[1], answer[2]))

    async def mark_asked(
        self, cell: int, attempt_id: AttemptId, *, grace_ms: int
    ) -> a.Done | a.Stale | a.Cold:
        answer = await self._tags.ask_cell(cell, "mark_asked", (attempt_id, grace_ms))
        return a.Done() if answer[0] == b"done" else _stale_or_cold(cell, answer)

    async def adopt(
        self, cell: int, adoption: Adoption
    ) -> a.Adopted | a.Stale | a.NotSeated | a.Cold:
        running, sender = adoption.running, adoption.sender
        answer = await self._tags.ask_cell(
            cell,
            "adopt",
            (
                running.job_id,
                running.attempt_id,
                sender.node_id,
                sender.epoch,
                adoption.job_class.value,
                adoption.wanted,
                adoption.lease_ms,
                adoption.run_ms,
                adoption.number,
            ),
        )
        return refusal(cell, answer, sender.node_id) or a.Adopted()

    async def settle(self, cell: int, attempt_ids: Sequence[AttemptId]) -> None:
        for attempt_id in attempt_ids:
            self._where.forget(attempt_id, cell)
        self._tags.settling.add(cell, attempt_ids)

    async def read_attempt(self, cell: int, attempt_id: AttemptId) -> AttemptRecord | None:
        answer = await self._tags.ask_cell(cell, "read_attempt", (attempt_id,))
        if answer[0] == b"none":
            return None
        return forms.attempt_in(cell, attempt_id, answer[1], answer[2])

    async def due_attempts(self, cells: Sequence[int], limit: int) -> tuple[AttemptRecord, ...]:
        answers = await asyncio.gather(
            *(self._tags.ask_cell(cell, "due_attempts", (limit,)) for cell in cells)
        )
        found = [
            forms.attempt_in(cell, AttemptId(name.decode()), packed, result)
            for cell, answer in zip(cells, answers, strict=True)
            for name, packed, result in answer
        ]
        return tuple(found[:limit])

    def _freed(self, cell: int, slots: int, inherited: Sequence[bytes]) -> a.Freed:
        if slots:
            self._where.has_room(cell)
        return forms.freed_in(slots, inherited)


def _stale_or_cold(cell: int, answer: Answer) -> a.Stale | a.Cold:
    if answer[0] == b"stale":
        return a.Stale(a.StaleReason(answer[1].decode()))
    return a.Cold(cell)
