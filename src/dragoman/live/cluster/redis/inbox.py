"""Inboxes on Redis: a stream for each instance, read by one group."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from typing import Any

from dragoman.ids import InstanceId
from dragoman.live.cluster.answers import (
    Burial,
    ClusterTerms,
    Delivery,
    Handed,
    InboxFull,
    InstanceGone,
    Posted,
    Superseded,
    TakenDown,
)
from dragoman.live.cluster.notes import Note, decode_note, encode_note
from dragoman.live.cluster.redis.dead_letters import DeadLetterOperations
from dragoman.live.cluster.redis.presence import refusal
from dragoman.live.cluster.redis.tags import Tags
from dragoman.redis_servers import Caller, Plain


class InboxOperations(DeadLetterOperations):
    """Notes from one instance to another."""

    _tags: Tags
    _terms: ClusterTerms
    _bell: Caller
    """A connection of its own: a wait there keeps no other request waiting."""
    _longest_wait_ms: int
    _instance_id: InstanceId
    _incarnation: str
    _last_entry_id: str
    """Up to here everything was handed out; the bell rings for what comes after it."""

    async def post(self, to: InstanceId, note: Note) -> Posted | InboxFull | InstanceGone:
        return await self._post(to, encode_note(note))

    async def take(
        self, count: int, *, done: Collection[str] = (), in_hand: Collection[str] = ()
    ) -> Handed | Superseded | TakenDown:
        terms = self._terms
        answer = await self._tags.ask_instance(
            self._instance_id,
            "take",
            (
                *(self._incarnation, count, terms.reclaim_idle_ms, terms.max_deliveries),
                *(tuple(done), tuple(in_hand)),
            ),
        )
        no = refusal(answer)
        if no is not None:
            return no
        _, length, handed, spent, last_entry_id, now_ms = answer
        self._last_entry_id = last_entry_id.decode() or self._last_entry_id
        deliveries = []
        for entry_id, times, written in _entries(handed):
            note = decode_note(written)
            if note is None:
                spent += (entry_id.encode(), times, written)
            else:
                # Both are times of the server that the inbox lies on.
                age_ms = max(0, now_ms - int(entry_id.partition("-")[0]))
                deliveries.append(Delivery(entry_id, times, note, age_ms))
        buried = await self._bury_all(_entries(spent))
        return Handed(tuple(deliveries), length - buried, buried)

    async def wait(self, seconds: float) -> None:
        key = self._tags.inbox_key(self._instance_id)
        wait_ms = max(1, min(int(seconds * 1000), self._longest_wait_ms))
        await self._bell.ask(
            self._tags.instance(self._instance_id).name,
            "wait",
            Plain(("XREAD", "COUNT", 1, "BLOCK", wait_ms, "STREAMS", key, self._last_entry_id)),
        )

    async def _bury_all(self, entries: Iterator[tuple[str, int, bytes]]) -> int:
        """First the grave, then the inbox: a note is never in neither."""
        spent = list(entries)
        await asyncio.gather(
            *(
                self._bury(
                    entry_id,
                    Burial.TOO_MANY_DELIVERIES if decode_note(written) else Burial.UNREADABLE,
                    times,
                    written,
                )
                for entry_id, times, written in spent
            )
        )
        if spent:
            await self._tags.ask_instance(
                self._instance_id,
                "strike_out",
                (self._incarnation, *(entry_id for entry_id, _, _ in spent)),
            )
        return len(spent)


def _entries(flat: list[Any]) -> Iterator[tuple[str, int, bytes]]:
    ids = (entry_id.decode() for entry_id in flat[::3])
    return zip(ids, flat[1::3], flat[2::3], strict=True)
