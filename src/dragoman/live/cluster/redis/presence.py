"""Presence on Redis: each instance's record beside its inbox, and a roster of their names."""

from __future__ import annotations

import asyncio
from random import Random

import msgspec

from dragoman.ids import InstanceId, new_id
from dragoman.live.cluster.answers import (
    Card,
    CleanUp,
    ClusterTerms,
    Drained,
    Fenced,
    InstanceView,
    Joined,
    Renewed,
    Superseded,
    TakenDown,
)
from dragoman.live.cluster.notes import decode_note
from dragoman.live.cluster.redis.tags import Answer, Tags

_pack_card = msgspec.msgpack.Encoder().encode
_card = msgspec.msgpack.Decoder(Card)

_NO_CARD = Card(url="", started_at_ms=0)
"""For a name on the roster without a record; the instance that cleans up strikes it."""


class PresenceOperations:
    """Who is there, and who cleans up after those who are not."""

    _tags: Tags
    _terms: ClusterTerms
    _random: Random
    _instance_id: InstanceId
    _incarnation: str
    """This life of the instance; empty before it has joined."""
    _born_ms: int
    """When it joined, by the clock of Redis."""
    _next_incarnation: str
    """The life to be joined with, also when the first answer to that is lost; else empty."""

    async def join(self, card: Card) -> Joined:
        self._next_incarnation = self._next_incarnation or new_id(self._random, "life")
        incarnation = self._next_incarnation
        # The roster first: a record that is not on it would never be cleaned up.
        await self._tags.ask_roster("enter", self._instance_id, incarnation)
        took_over, born_ms = await self._tags.ask_instance(
            self._instance_id,
            "join",
            (incarnation, self._terms.presence_ttl_ms),
            _pack_card(card),
        )
        self._incarnation, self._next_incarnation = incarnation, ""
        self._born_ms = born_ms
        return Joined(took_over=bool(took_over))

    async def renew(self, card: Card) -> Renewed | Superseded | TakenDown:
        answer = await self._tags.ask_instance(
            self._instance_id,
            "renew",
            (self._incarnation, self._terms.presence_ttl_ms, self._born_ms),
            _pack_card(card),
        )
        no = refusal(answer)
        if no is not None:
            return no
        # Each time, in case the roster was forgotten or a peer struck us too early.
        await self._tags.ask_roster("enter", self._instance_id, self._incarnation)
        return Renewed(revived=bool(answer[1]))

    async def leave(self) -> None:
        (what,) = await self._tags.ask_instance(self._instance_id, "leave", (self._incarnation,))
        if what == b"gone":
            await self._tags.ask_roster("strike", self._instance_id, self._incarnation)

    async def instances(self) -> tuple[InstanceView, ...]:
        known = await self._known()
        counts = await self._tags.ask_dead_letters("counts")
        letters = {name.decode(): int(count) for name, count in _pairs(counts)}
        answers = await asyncio.gather(
            *(self._tags.ask_instance(instance_id, "view") for instance_id in known)
        )
        return tuple(
            InstanceView(
                instance_id=instance_id,
                card=_card.decode(answer[1]) if answer[1] else _NO_CARD,
                alive=bool(answer[0]),
                inbox_length=answer[2],
                pending=answer[3],
                dead_letters=letters.get(instance_id, 0),
            )
            for instance_id, answer in sorted(zip(known, answers, strict=True))
        )

    async def take_down(self, instance_id: InstanceId) -> CleanUp | None:
        # Our own life is the token: asked again after a lost answer, the right is still ours.
        token = self._incarnation
        answer = await self._tags.ask_instance(
            instance_id,
            "take_down",
            (token, self._terms.suspicion_ms, self._terms.owner_ttl_ms),
        )
        if answer[0] == b"unknown":
            incarnation = answer[1].decode() or (await self._known()).get(instance_id, "")
            await self._tags.ask_roster("strike", instance_id, incarnation)
        if answer[0] != b"yours":
            return None
        return CleanUp(instance_id, answer[1].decode(), token)

    async def drain(self, clean_up: CleanUp, count: int = 500) -> Drained | Fenced:
        answer = await self._tags.ask_instance(
            clean_up.instance_id,
            "drain",
            (clean_up.token, clean_up.incarnation, count, self._terms.owner_ttl_ms),
        )
        if answer[0] == b"fenced":
            return Fenced()
        notes = (decode_note(written) for written in answer[2:])
        return Drained(tuple(note for note in notes if note is not None), more=bool(answer[1]))

    async def finish(self, clean_up: CleanUp) -> bool:
        (finished,) = await self._tags.ask_instance(
            clean_up.instance_id, "finish", (clean_up.token, clean_up.incarnation)
        )
        if finished:
            await self._tags.ask_roster("strike", clean_up.instance_id, clean_up.incarnation)
        return bool(finished)

    async def _known(self) -> dict[InstanceId, str]:
        answer = await self._tags.ask_roster("known")
        return {InstanceId(name.decode()): life.decode() for name, life in _pairs(answer)}


def refusal(answer: Answer) -> Superseded | TakenDown | None:
    """Why a process may not speak for its instance, when that is the answer."""
    if answer[0] == b"superseded":
        return Superseded()
    if answer[0] == b"taken_down":
        return TakenDown()
    return None


def _pairs(flat: Answer) -> zip[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)
