"""Changes in experiments, sent to watchers as they happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import msgspec

from dragoman.lab.model import ExperimentId, ItemKey, RunId
from dragoman.lab.states import RunStatus

WATCHER_CHANGES_MAX = 1_000
"""Changes kept for a watcher that does not keep up; the oldest are dropped first."""


class ItemsArchived(msgspec.Struct, frozen=True, tag="items"):
    """These repetitions of items have ended and their rows can be read."""

    experiment_id: ExperimentId
    run_id: RunId
    keys: tuple[ItemKey, ...]


class RunEnded(msgspec.Struct, frozen=True, tag="end"):
    """A run is over."""

    experiment_id: ExperimentId
    run_id: RunId
    status: RunStatus


Change = ItemsArchived | RunEnded


class Watcher:
    """The changes of one experiment, in order: ``async for change in watcher``."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[Change] = asyncio.Queue()

    def tell(self, change: Change) -> None:
        if self._waiting.qsize() >= WATCHER_CHANGES_MAX:
            self._waiting.get_nowait()
        self._waiting.put_nowait(change)

    def __aiter__(self) -> AsyncIterator[Change]:
        return self

    async def __anext__(self) -> Change:
        return await self._waiting.get()


class WatcherFeed:
    """Brings changes to watchers. Senders do not wait for them: the database has the truth."""

    def __init__(self) -> None:
        self._watchers: dict[ExperimentId, set[Watcher]] = {}

    def publish(self, change: Change) -> None:
        for watcher in self._watchers.get(change.experiment_id, ()):
            watcher.tell(change)

    @contextmanager
    def watch(self, experiment_id: ExperimentId) -> Iterator[Watcher]:
        """Changes from now on, until the context is left."""
        watcher = Watcher()
        watchers = self._watchers.setdefault(experiment_id, set())
        watchers.add(watcher)
        try:
            yield watcher
        finally:
            watchers.discard(watcher)
            if not watchers:
                self._watchers.pop(experiment_id, None)
