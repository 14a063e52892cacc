"""Hints between schedulers and workers: losing any of them costs time, never work."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol, TypeVar

import msgspec

from dragoman.lab.feed import Change
from dragoman.lab.model import ItemKey, RunId

Hint = TypeVar("Hint", bound=Hashable)


class ItemOffer(msgspec.Struct, frozen=True):
    """Items of a run that were handed out, for any worker to take."""

    run_id: RunId
    keys: tuple[ItemKey, ...]
    """None named: the worker asks the database which there are."""


class HintTopic(Protocol[Hint]):
    """Hints of one kind. The same hint given several times may arrive once."""

    def put(self, hint: Hint) -> None:
        """Give a hint; never waits, never fails."""
        ...

    async def take(self) -> Sequence[Hint]:
        """Every hint since the last call, in order; waits for one."""
        ...


class Queue(Protocol):
    """The hints between schedulers and workers."""

    @property
    def offers(self) -> HintTopic[ItemOffer]:
        """For workers: items can be taken. A hint may reach one worker only, or all of them."""
        ...

    async def take_offers(self, items: int) -> Sequence[ItemOffer]:
        """Wait for offers; where each reaches one worker only, for about so many items."""
        ...

    @property
    def gives_offers_once(self) -> bool:
        """Whether each offer reaches one worker only."""
        ...

    @property
    def stops(self) -> HintTopic[RunId]:
        """For all workers: stop working on this run."""
        ...

    @property
    def news(self) -> HintTopic[RunId]:
        """For all schedulers: look at this run again."""
        ...

    @property
    def changes(self) -> HintTopic[Change]:
        """For the other instances, whose watchers want to know; never for the sender itself."""
        ...

    async def close(self) -> None:
        """Send what is waiting, if that can be done at once, and let go of the server."""
        ...
