"""Presence in memory."""

from __future__ import annotations

from dragoman.ids import InstanceId, new_id
from dragoman.live.cluster.answers import (
    Card,
    CleanUp,
    Drained,
    Fenced,
    InstanceStanding,
    InstanceView,
    Joined,
    Renewed,
    Superseded,
    TakenDown,
)
from dragoman.live.cluster.memory.instance import InboxQueue, Instance
from dragoman.live.cluster.memory.seat import HubSeat
from dragoman.live.cluster.notes import decode_note


class MemoryPresence(HubSeat):
    """Who is there, and who cleans up after those who are not."""

    async def join(self, card: Card) -> Joined:
        self._next_incarnation = self._next_incarnation or new_id(self._hub.random, "life")
        incarnation = self._next_incarnation
        await self._there()
        hub, now_ms = self._hub, self._now_ms
        before = hub.instances.get(self._instance_id)
        hub.finished.pop(self._instance_id, None)
        hub.instances[self._instance_id] = Instance(
            incarnation,
            now_ms,
            now_ms + hub.terms.presence_ttl_ms,
            card,
            before.inbox if before else InboxQueue(),
        )
        self._back()
        self._incarnation, self._next_incarnation = incarnation, ""
        self._born_ms = now_ms
        took_over = before and before.is_alive(now_ms) and before.incarnation != incarnation
        return Joined(took_over=bool(took_over))

    async def renew(self, card: Card) -> Renewed | Superseded | TakenDown:
        await self._there()
        self._forget_earlier_life()
        no = self._refusal()
        if no is not None:
            return no
        hub, now_ms = self._hub, self._now_ms
        until_ms = now_ms + hub.terms.presence_ttl_ms
        instance = hub.instances.get(self._instance_id)
        revived = instance is None or not instance.is_alive(now_ms)
        if instance is None:
            hub.instances[self._instance_id] = Instance(
                self._incarnation, self._born_ms, until_ms, card, InboxQueue()
            )
        else:
            instance.renew(until_ms, card)
        self._back()
        return Renewed(revived=revived)

    async def leave(self) -> None:
        await self._there()
        instance = self._hub.instances.get(self._instance_id)
        if instance is not None and self._refusal() is None:
            if len(instance.inbox):
                instance.standing = InstanceStanding.LEFT
            else:
                del self._hub.instances[self._instance_id]
        self._back()

    async def instances(self) -> tuple[InstanceView, ...]:
        await self._there()
        hub, now_ms = self._hub, self._now_ms
        return tuple(
            InstanceView(
                instance_id=instance_id,
                card=instance.card,
                alive=instance.is_alive(now_ms),
                inbox_length=len(instance.inbox),
                pending=instance.inbox.pending,
                dead_letters=sum(
                    letter.instance_id == instance_id for letter in hub.letters.values()
                ),
            )
            for instance_id, instance in sorted(hub.instances.items())
        )

    async def take_down(self, instance_id: InstanceId) -> CleanUp | None:
        await self._there()
        instance = self._hub.instances.get(instance_id)
        token = self._incarnation
        if instance is None or not instance.take_down(token, self._hub.terms, self._now_ms):
            return None
        self._back()
        return CleanUp(instance_id, instance.incarnation, token)

    async def drain(self, clean_up: CleanUp, count: int = 500) -> Drained | Fenced:
        await self._there()
        instance = self._cleaned(clean_up)
        if instance is None:
            return Fenced()
        instance.extend_cleaner(self._now_ms + self._hub.terms.owner_ttl_ms)
        notes = map(decode_note, instance.inbox.drain(count))
        self._back()
        return Drained(
            tuple(note for note in notes if note is not None), more=len(instance.inbox) > 0
        )

    async def finish(self, clean_up: CleanUp) -> bool:
        await self._there()
        finished = self._hub.finished.get(clean_up.instance_id)
        if finished is not None and finished.incarnation == clean_up.incarnation:
            return True
        instance = self._cleaned(clean_up)
        if instance is None:
            return False
        self._hub.finished[clean_up.instance_id] = instance
        del self._hub.instances[clean_up.instance_id]
        self._back()
        return True

    def _forget_earlier_life(self) -> None:
        """Drop a record of this instance that the hub went back to; its notes stay."""
        hub, instance_id = self._hub, self._instance_id
        for known in (hub.instances, hub.finished):
            before = known.get(instance_id)
            if before is not None and before.is_of_earlier_life(self._incarnation, self._born_ms):
                del known[instance_id]
                if known is hub.instances:
                    hub.instances[instance_id] = Instance(
                        self._incarnation, self._born_ms, 0, before.card, before.inbox
                    )

    def _cleaned(self, clean_up: CleanUp) -> Instance | None:
        """The instance, when it is the cleaner's to clean up after."""
        instance = self._hub.instances.get(clean_up.instance_id)
        if instance is None or not instance.is_cleaner(clean_up.token, clean_up.incarnation):
            return None
        return instance
