"""What instances of one cluster can do together, wherever it is kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from dragoman.ids import InstanceId, TenantId
from dragoman.live.cluster.answers import (
    Block,
    Card,
    CleanUp,
    Counted,
    DeadLetter,
    Drained,
    Fenced,
    Handed,
    InboxFull,
    InstanceGone,
    InstanceView,
    Joined,
    Limited,
    NoSuchLetter,
    Posted,
    Received,
    Renewed,
    Superseded,
    TakenDown,
)
from dragoman.live.cluster.changes import Change
from dragoman.live.cluster.notes import Note


class Presence(Protocol):
    """Who is there, and who cleans up after those who are not."""

    async def join(self, card: Card) -> Joined:
        """Be present from now on, as a new life of this instance.

        A process of the same name that is still present is superseded.
        """
        ...

    async def renew(self, card: Card) -> Renewed | Superseded | TakenDown:
        """Stay present for another presence time."""
        ...

    async def leave(self) -> None:
        """Say goodbye; what is left in the inbox is for a peer. Harmless when taken down."""
        ...

    async def instances(self) -> tuple[InstanceView, ...]:
        """Every instance that is present, or not yet cleaned up."""
        ...

    async def take_down(self, instance_id: InstanceId) -> CleanUp | None:
        """Win the right to clean up after an instance, or None when it is not yours.

        The first call that finds it lapsed only suspects it; a later one, when the suspicion has
        lasted, takes it down. An instance that left is taken down at once. A cleaner that goes
        silent is replaced.
        """
        ...

    async def drain(self, clean_up: CleanUp, count: int = 500) -> Drained | Fenced:
        """Take notes out of the inbox of an instance that was taken down."""
        ...

    async def finish(self, clean_up: CleanUp) -> bool:
        """Forget an instance that was cleaned up after; False when it is back."""
        ...


class Inbox(Protocol):
    """Notes from one instance to another."""

    async def post(self, to: InstanceId, *notes: Note) -> Posted | InboxFull | InstanceGone:
        """Write to an instance: all the notes, or none where there is no room for all.

        When the outcome is unknown, writing again is safe.
        """
        ...

    async def take(
        self, count: int, *, done: Collection[str] = (), in_hand: Collection[str] = ()
    ) -> Handed | Superseded | TakenDown:
        """Strike out the notes that are done, and hand out others.

        Notes in hand are still being worked on, however long it takes. Those that were handed out
        long ago and are no longer in hand, because a process died or a handler failed, are handed
        out again, and become dead letters when that happened too often.
        """
        ...

    async def receive(self, count: int, seconds: float) -> Received:
        """Wait for new notes, and have at most so many handed out; none when the time is up.

        Notes that were handed out before are for `take`, which also says whether this process may
        read at all: what was written to another life of the instance is not handed out here.
        """
        ...


class DeadLetters(Protocol):
    """Notes that could not be handled, of all instances; the oldest go when there are too many."""

    async def letters(self, count: int = 100, after: str = "") -> tuple[DeadLetter, ...]:
        """Dead letters in the order of their ids, those after one of them."""
        ...

    async def replay(self, letter_id: str) -> Posted | InboxFull | InstanceGone | NoSuchLetter:
        """Post a dead letter again; it is dropped when that worked."""
        ...

    async def drop(self, letter_ids: Sequence[str]) -> int:
        """Forget dead letters; the answer is how many there were."""
        ...


class Feed(Protocol):
    """News that may be missed."""

    async def publish(self, change: Change, to: InstanceId | None = None) -> None:
        """Call it out to one instance, or to all but this one."""
        ...

    async def listen(self, on_change: Callable[[Change], None], on_gap: Callable[[], None]) -> None:
        """Hear the news until cancelled.

        on_gap is called each time listening begins, first or again: what was called out before
        may have been missed.
        """
        ...


class Limits(Protocol):
    """Counts that hold over all instances."""

    async def first_in_window(self, key: str, window_ms: int) -> bool:
        """True for the first who asks for the key in a window of time."""
        ...

    async def count_in_window(self, key: str, limit: int, window_ms: int) -> Counted:
        """Count one more for the key; the window begins with the first."""
        ...

    async def hold(
        self, what: Limited, tenant: TenantId, *, used: int, wanted: int, limit: int, ttl_ms: int
    ) -> Block:
        """Have a part of a tenant's limit for this instance, instead of what it had before.

        It is what the instance uses in any case, and of what it wants as much as the other
        instances leave. It counts until it is held again or its time is up.
        """
        ...


class Cluster(Presence, Inbox, DeadLetters, Feed, Limits, Protocol):
    """One instance's place in its cluster.

    Every operation raises DependencyDown when the cluster cannot be reached in time; whether it
    took effect is then unknown, and asking again is safe.
    """

    @property
    def instance_id(self) -> InstanceId: ...

    async def close(self) -> None:
        """Let go of the cluster without a word; `leave` says goodbye."""
        ...
