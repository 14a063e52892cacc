"""Seats on Redis: nodes in their cells."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import lru_cache

from dragoman.ids import NodeId
from dragoman.live.ledger import answers as a
from dragoman.live.ledger.asks import Heartbeat, Placement, Sender
from dragoman.live.ledger.records import CellRecord
from dragoman.live.ledger.redis import forms
from dragoman.live.ledger.redis.tags import Answer, Tags

_EPOCH_BITS = 32
_VERSION_BITS = 20


@lru_cache(maxsize=4_096)
def candidate_bytes(mask: int) -> bytes:
    """One byte, the seat's index, for each set bit; the same masks come back with every ask."""
    return bytes(index for index in range(mask.bit_length()) if mask >> index & 1)


def refusal(cell: int, answer: Answer, node_id: NodeId) -> a.Stale | a.NotSeated | a.Cold | None:
    """The answers that say that nothing was done; None for any other."""
    match answer[0]:
        case b"cold":
            return a.Cold(cell)
        case b"not_seated":
            return a.NotSeated(node_id)
        case b"stale":
            return a.Stale(a.StaleReason(answer[1].decode()))
    return None


class SeatOperations:
    """The part of the ledger that nodes and operators move."""

    _tags: Tags

    async def seat(self, cell: int, placement: Placement) -> a.Placed | a.CellFull | a.Stale:
        owner = placement.owner
        answer = await self._tags.ask_cell(
            cell,
            "place",
            (
                placement.node_id,
                forms.owner_text(placement.node_id, owner),
                owner.epoch,
                placement.slots,
                placement.lease_ms,
                forms.flat(placement.running),
                self._tags.cell_size,
                self._tags.random.getrandbits(_EPOCH_BITS) << _VERSION_BITS,
            ),
            placement.facts,
        )
        match answer[0]:
            case b"cell_full":
                return a.CellFull()
            case b"stale":
                return a.Stale(a.StaleReason(answer[1].decode()))
        index, version, drained, passed, lost, cancelling, unknown, slots, inherited = answer[1:]
        return a.Placed(
            index=index,
            version=int(version),
            drained=bool(drained),
            passed=forms.running_in(passed),
            lost=forms.running_in(lost),
            cancelling=forms.running_in(cancelling),
            unknown=forms.running_in(unknown),
            freed=forms.freed_in(slots, inherited),
        )

    async def amend(
        self,
        cell: int,
        sender: Sender,
        *,
        slots: int | None = None,
        facts: bytes | None = None,
    ) -> a.Done | a.Stale | a.NotSeated | a.Cold:
        new_slots = forms.NO_LIMIT if slots is None else slots
        answer = await self._tags.ask_cell(
            cell,
            "amend",
            (sender.node_id, sender.epoch, new_slots, facts is not None),
            facts or b"",
        )
        return refusal(cell, answer, sender.node_id) or a.Done()

    async def set_drained(
        self, cell: int, node_id: NodeId, drained: bool
    ) -> a.Done | a.NotSeated | a.Cold:
        answer = await self._tags.ask_cell(cell, "set_drained", (node_id, drained))
        match answer[0]:
            case b"cold":
                return a.Cold(cell)
            case b"not_seated":
                return a.NotSeated(node_id)
        return a.Done()

    async def disconnect(
        self, cell: int, sender: Sender
    ) -> a.Done | a.Stale | a.NotSeated | a.Cold:
        answer = await self._tags.ask_cell(cell, "disconnect", (sender.node_id, sender.epoch))
        return refusal(cell, answer, sender.node_id) or a.Done()

    async def lose(
        self, cell: int, sender: Sender, *, only_if_silent: bool = False
    ) -> a.NodeLost | a.Stale | a.NotSeated | a.Cold:
        answer = await self._tags.ask_cell(
            cell, "lose", (sender.node_id, sender.epoch, only_if_silent)
        )
        return refusal(cell, answer, sender.node_id) or _lost(answer)

    async def remove(
        self, cell: int, sender: Sender
    ) -> a.NodeLost | a.Stale | a.NotSeated | a.Cold:
        answer = await self._tags.ask_cell(cell, "remove", (sender.node_id, sender.epoch))
        return refusal(cell, answer, sender.node_id) or _lost(answer)

    async def beat(
        self, cell: int, heartbeat: Heartbeat
    ) -> a.Beat | a.Stale | a.NotSeated | a.Cold:
        answer = await self._tags.ask_cell(
            cell,
            "beat",
            (
                heartbeat.node_id,
                heartbeat.epoch,
                heartbeat.lease_ms,
                forms.flat(heartbeat.running),
                heartbeat.number,
            ),
        )
        if answer[0] != b"beat":
            return refusal(cell, answer, heartbeat.node_id) or a.Beat()
        if len(answer) == 1:
            return a.Beat()
        _, lost, unknown, cancelling, slots, inherited = answer
        return a.Beat(
            forms.running_in(lost),
            forms.running_in(unknown),
            forms.running_in(cancelling),
            forms.freed_in(slots, inherited),
        )

    async def read_cell(self, cell: int) -> CellRecord | None:
        answer = await self._tags.ask_cell(cell, "read_cell")
        if answer[0] == b"cold":
            return None
        _, version, board, fields = answer
        return CellRecord(cell, int(version), forms.seats_in(board, fields))

    async def cell_version(self, cell: int) -> int | None:
        answer = await self._tags.ask_cell(cell, "cell_version")
        return None if answer[0] == b"cold" else int(answer[1])

    async def outlook(self, cells: Sequence[tuple[int, int]]) -> a.Outlook:
        answers = await asyncio.gather(
            *(
                self._tags.ask_cell(cell, "outlook", (), candidate_bytes(mask))
                for cell, mask in cells
            )
        )
        warm = [answer for answer in answers if answer[0] != b"cold"]
        rate = sum(float(answer[3]) for answer in warm)
        return a.Outlook(
            sum(answer[1] for answer in warm),
            sum(answer[2] for answer in warm),
            int(1 / rate) if rate else None,
        )


def _lost(answer: Answer) -> a.NodeLost:
    _, lost, slots, inherited = answer
    return a.NodeLost(forms.running_in(lost), forms.freed_in(slots, inherited))
