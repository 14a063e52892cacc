"""What the cluster keeps of one instance: where it stands, and its inbox."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator

import msgspec

from dragoman.live.cluster.answers import (
    Card,
    ClusterTerms,
    InstanceStanding,
    Superseded,
    TakenDown,
)


class InboxEntry(msgspec.Struct):
    """A note in an inbox."""

    entry_id: str
    written: bytes
    posted_at_ms: int
    handed_at_ms: int = 0
    deliveries: int = 0
    """How often it was handed out; 0 for a new one."""


class InboxQueue:
    """Notes in the order they came, those handed out included until they are done."""

    def __init__(self) -> None:
        self._entries: dict[str, InboxEntry] = {}
        self._posted = 0
        self.news = asyncio.Event()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[InboxEntry]:
        return iter(self._entries.values())

    @property
    def pending(self) -> int:
        return sum(entry.deliveries > 0 for entry in self)

    def add(self, written: bytes, now_ms: int) -> None:
        self._posted += 1
        entry = InboxEntry(f"{now_ms}-{self._posted}", written, now_ms)
        self._entries[entry.entry_id] = entry
        self.news.set()

    def strike_out(self, entry_ids: Collection[str]) -> None:
        for entry_id in entry_ids:
            self._entries.pop(entry_id, None)

    def hand_out(
        self, count: int, in_hand: Collection[str], reclaim_idle_ms: int, now_ms: int
    ) -> list[InboxEntry]:
        """Notes left lying first, then new ones."""
        for entry_id in in_hand:
            if entry_id in self._entries:
                self._entries[entry_id].handed_at_ms = now_ms
        handed_out = [entry for entry in self if entry.deliveries]
        left_lying = [
            entry for entry in handed_out if now_ms - entry.handed_at_ms >= reclaim_idle_ms
        ]
        fresh = [entry for entry in self if not entry.deliveries]
        handed = [*left_lying, *fresh][:count]
        for entry in handed:
            entry.deliveries += 1
            entry.handed_at_ms = now_ms
        if all(entry.deliveries for entry in fresh):
            self.news.clear()
        return handed

    def hand_out_new(self, count: int, now_ms: int) -> list[InboxEntry]:
        """Notes that were never handed out."""
        fresh = [entry for entry in self if not entry.deliveries]
        for entry in fresh[:count]:
            entry.deliveries = 1
            entry.handed_at_ms = now_ms
        if len(fresh) <= count:
            self.news.clear()
        return fresh[:count]

    def drain(self, count: int) -> tuple[bytes, ...]:
        entry_ids = list(self._entries)[:count]
        return tuple(self._entries.pop(entry_id).written for entry_id in entry_ids)


class Instance:
    """An instance that has joined."""

    def __init__(
        self, incarnation: str, born_ms: int, until_ms: int, card: Card, inbox: InboxQueue
    ) -> None:
        self.incarnation = incarnation
        self.born_ms = born_ms
        self.until_ms = until_ms
        self.card = card
        self.inbox = inbox
        self.standing = InstanceStanding.UP
        self._suspected_at_ms: int | None = None
        self._cleaner = ""
        self._cleaner_until_ms = 0

    def is_alive(self, now_ms: int) -> bool:
        return self.standing is InstanceStanding.UP and self.until_ms > now_ms

    def refusal(self, incarnation: str) -> Superseded | TakenDown | None:
        """Why a process may not speak for the instance, or None when it may."""
        if self.incarnation != incarnation:
            return Superseded()
        return None if self.standing is InstanceStanding.UP else TakenDown()

    def is_of_earlier_life(self, incarnation: str, born_ms: int) -> bool:
        """Whether this is a life before the one that joined then, to which the hub went back.

        Such a life has not superseded a later one.
        """
        return self.incarnation != incarnation and self.born_ms < born_ms

    def renew(self, until_ms: int, card: Card) -> None:
        self.until_ms = until_ms
        self.card = card
        self._suspected_at_ms = None

    def take_down(self, token: str, terms: ClusterTerms, now_ms: int) -> bool:
        """Suspect it, or take it down; True when the cleaner may clean up."""
        if self.standing is InstanceStanding.UP:
            if self.is_alive(now_ms):
                return False
            if self._suspected_at_ms is None:
                self._suspected_at_ms = now_ms
            if now_ms - self._suspected_at_ms < terms.suspicion_ms:
                return False
        elif (
            self.standing is InstanceStanding.DOWN
            and self._cleaner != token
            and self._cleaner_until_ms > now_ms
        ):
            return False
        self.standing = InstanceStanding.DOWN
        self._cleaner = token
        self._cleaner_until_ms = now_ms + terms.owner_ttl_ms
        return True

    def is_cleaner(self, token: str, incarnation: str) -> bool:
        return (
            self.standing is InstanceStanding.DOWN
            and self.incarnation == incarnation
            and self._cleaner == token
        )

    def extend_cleaner(self, until_ms: int) -> None:
        self._cleaner_until_ms = until_ms
