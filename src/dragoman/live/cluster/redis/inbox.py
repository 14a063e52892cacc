"""Inboxes on Redis: a stream for each instance, read by one group."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from typing import Any

from dragoman.ids import InstanceId
from dragoman.live.cluster.answers import (
    Burial,
    ClusterTerms,
    Handed,
    InboxFull,
    InstanceGone,
    NoteDelivery,
    Posted,
    Received,
    Superseded,
    TakenDown,
)
from dragoman.live.cluster.notes import Note, decode_note, encode_note
from dragoman.live.cluster.redis.dead_letters import DeadLetterOperations
from dragoman.live.cluster.redis.presence import refusal
from dragoman.live.cluster.redis.tags import Tags
from dragoman.redis_servers import Plain, RedisPipeline

_GROUP = "instance"
"""The one group that reads an inbox, in which each life of the instance is a consumer."""


class InboxOperations(DeadLetterOperations):
    """Notes from one instance to another."""

    _tags: Tags
    _terms: ClusterTerms
    _bell: RedisPipeline
    """A connection of its own: a wait there keeps no other request waiting."""
    _longest_wait_ms: int
    _instance_id: InstanceId
    _incarnation: str
    _is_outlived: bool
    """A note was written to another life of the instance: this one asks before it reads on."""

    async def post(self, to: InstanceId, *notes: Note) -> Posted | InboxFull | InstanceGone:
        return await self._post(to, *map(encode_note, notes))

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
        _, length, handed, spent, now_ms = answer
        self._is_outlived = False
        deliveries = []
        for entry_id, times, written in _entries(handed):
            note = decode_note(written)
            if note is None:
                spent += (entry_id.encode(), times, written)
            else:
                # Both are times of the server that the inbox lies on.
                age_ms = max(0, now_ms - int(entry_id.partition("-")[0]))
                deliveries.append(NoteDelivery(entry_id, times, note, age_ms))
        buried = await self._bury_all(_entries(spent))
        return Handed(tuple(deliveries), length - buried, buried)

    async def receive(self, count: int, seconds: float) -> Received:
        wait_ms = max(1, min(int(seconds * 1000), self._longest_wait_ms))
        if self._is_outlived:
            await asyncio.sleep(wait_ms / 1000)
            return Received()
        tag, key = self._tags.instance(self._instance_id), self._tags.inbox_key(self._instance_id)
        reading = ("XREADGROUP", "GROUP", _GROUP, self._incarnation)
        how = ("COUNT", count, "BLOCK", wait_ms, "STREAMS", key, ">")
        answer = await self._bell.ask(tag.name, "receive", Plain(reading + how))
        deliveries = []
        entries = answer[0][1] if answer else ()
        for entry_id, fields in entries:
            written, life = fields[1], fields[3].decode() if len(fields) > 3 else ""
            if life and life != self._incarnation:
                # It is the next life's; what was read here is handed out again there.
                self._is_outlived = True
                continue
            note = decode_note(written)
            if note is not None:
                # One that cannot be read is left lying, until it is buried.
                deliveries.append(NoteDelivery(entry_id.decode(), 1, note))
        is_all = len(entries) < count and not self._is_outlived
        return Received(tuple(deliveries), is_all)

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
