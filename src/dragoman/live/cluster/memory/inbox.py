"""Inboxes and dead letters in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial

from dragoman.ids import InstanceId
from dragoman.live.cluster.answers import (
    Burial,
    DeadLetter,
    Handed,
    InboxFull,
    InstanceGone,
    NoSuchLetter,
    NoteDelivery,
    Posted,
    Received,
    Superseded,
    TakenDown,
    letter_id_of,
)
from dragoman.live.cluster.memory.instance import InboxEntry, InboxQueue
from dragoman.live.cluster.memory.seat import HubSeat
from dragoman.live.cluster.notes import Note, decode_note, encode_note


class MemoryInbox(HubSeat):
    """Notes from one instance to another, and those that could not be handled."""

    async def post(self, to: InstanceId, *notes: Note) -> Posted | InboxFull | InstanceGone:
        await self._there()
        answer = self._post(to, *map(encode_note, notes))
        self._back()
        return answer

    async def take(
        self, count: int, *, done: Collection[str] = (), in_hand: Collection[str] = ()
    ) -> Handed | Superseded | TakenDown:
        await self._there()
        no = self._refusal()
        if no is not None:
            return no
        instance = self._hub.instances.get(self._instance_id)
        if instance is None:
            return Handed()
        terms, inbox = self._hub.terms, instance.inbox
        inbox.strike_out(done)
        deliveries, buried = [], []
        for entry in inbox.hand_out(count, in_hand, terms.reclaim_idle_ms, self._now_ms):
            note = decode_note(entry.written)
            if note is None:
                self._bury(entry, Burial.UNREADABLE)
                buried.append(entry.entry_id)
            elif entry.deliveries > terms.max_deliveries:
                self._bury(entry, Burial.TOO_MANY_DELIVERIES)
                buried.append(entry.entry_id)
            else:
                age_ms = self._now_ms - entry.posted_at_ms
                deliveries.append(NoteDelivery(entry.entry_id, entry.deliveries, note, age_ms))
        inbox.strike_out(buried)
        self._back()
        return Handed(tuple(deliveries), len(inbox), len(buried))

    async def receive(self, count: int, seconds: float) -> Received:
        await self._there()
        instance = self._hub.instances.get(self._instance_id)
        if instance is None or self._refusal() is not None:
            await asyncio.sleep(seconds)
            return Received()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await instance.inbox.news.wait()
        if self._refusal() is not None:
            return Received()
        deliveries = []
        handed = instance.inbox.hand_out_new(count, self._now_ms)
        for entry in handed:
            note = decode_note(entry.written)
            if note is not None:
                # One that cannot be read is left lying, until it is buried.
                deliveries.append(NoteDelivery(entry.entry_id, 1, note))
        # They are handed out, whether or not the answer arrives.
        await self._there()
        self._back()
        return Received(tuple(deliveries), is_all=len(handed) < count)

    async def letters(self, count: int = 100, after: str = "") -> tuple[DeadLetter, ...]:
        await self._there()
        found = sorted(letter_id for letter_id in self._hub.letters if letter_id > after)
        return tuple(self._hub.letters[letter_id] for letter_id in found[:count])

    async def replay(self, letter_id: str) -> Posted | InboxFull | InstanceGone | NoSuchLetter:
        await self._there()
        letter = self._hub.letters.get(letter_id)
        if letter is None:
            return NoSuchLetter()
        answer = self._post(letter.instance_id, letter.written)
        if isinstance(answer, Posted):
            del self._hub.letters[letter_id]
        self._back()
        return answer

    async def drop(self, letter_ids: Sequence[str]) -> int:
        await self._there()
        dropped = [self._hub.letters.pop(letter_id, None) for letter_id in letter_ids]
        self._back()
        return sum(letter is not None for letter in dropped)

    def _post(self, to: InstanceId, *written: bytes) -> Posted | InboxFull | InstanceGone:
        hub = self._hub
        instance = hub.instances.get(to)
        if instance is None or not instance.is_alive(self._now_ms):
            return InstanceGone()
        inbox = instance.inbox
        if len(inbox) + len(written) > hub.terms.inbox_max:
            return InboxFull()
        for each in written:
            hub.faults.carry_note(partial(self._add, inbox, each))
        return Posted()

    def _add(self, inbox: InboxQueue, written: bytes) -> None:
        inbox.add(written, self._now_ms)

    def _bury(self, entry: InboxEntry, reason: Burial) -> None:
        letters = self._hub.letters
        letter_id = letter_id_of(self._instance_id, entry.entry_id)
        letters[letter_id] = DeadLetter(
            letter_id, self._instance_id, reason, entry.deliveries, self._now_ms, entry.written
        )
        while len(letters) > self._hub.terms.dead_letters_max:
            del letters[min(letters)]
