"""Hints between scheduler and workers: losing any of them costs time, never work."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol, TypeVar

import msgspec

from dragoman.lab.model import ItemKey, RunId

Hint = TypeVar("Hint", bound=Hashable)


class Offer(msgspec.Struct, frozen=True):
    """Items of a run that were handed out, for any worker to take."""

    run_id: RunId
    keys: tuple[ItemKey, ...]


class Topic(Protocol[Hint]):
    """Hints of one kind. The same hint given several times may arrive once."""

    def put(self, hint: Hint) -> None:
        """Give a hint; never waits, never fails."""
        ...

    async def take(self) -> Sequence[Hint]:
        """Every hint since the last call, in order; waits for one."""
        ...


class Queue(Protocol):
    """The hints between the scheduler and the workers."""

    @property
    def offers(self) -> Topic[Offer]:
        """For workers: items can be taken."""
        ...

    @property
    def stops(self) -> Topic[RunId]:
        """For workers: stop working on this run."""
        ...

    @property
    def news(self) -> Topic[RunId]:
        """For the scheduler: look at this run again."""
        ...
