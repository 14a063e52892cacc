"""Retention: experiments that have been over for long, or are too many, are removed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import msgspec

from dragoman.lab.removal import finish_removal
from dragoman.lab.repository import EndedExperiment, pruning, read_now_ms, removing
from dragoman.store import Store, StoreConnection

__all__ = ["EndedExperiment", "Retention", "prune", "surplus"]

DAY_MS = 24 * 3600 * 1000
EXPERIMENTS_AT_ONCE = 100

Note = Callable[[StoreConnection, EndedExperiment], None]
"""Told of an experiment that is being removed."""


class Retention(msgspec.Struct, frozen=True):
    """How long experiments that are over are kept, and how many of each tenant; 0: no limit."""

    days: float = 0
    experiments: int = 0

    @property
    def is_unlimited(self) -> bool:
        return not self.days and not self.experiments


async def surplus(store: Store, retention: Retention) -> AsyncIterator[EndedExperiment]:
    """What the rule would remove, each experiment once; changes nothing."""
    by_age: set[str] = set()
    if retention.days:
        now_ms = await store.read(read_now_ms)
        before_ms = now_ms - round(retention.days * DAY_MS)
        last: EndedExperiment | None = None
        while some := await store.read(
            lambda c: pruning.ended_before(c, before_ms, last, EXPERIMENTS_AT_ONCE)  # noqa: B023
        ):
            last = some[-1]
            for one in some:
                by_age.add(one.experiment_id)
                yield one
    if retention.experiments:
        tenant = await store.read(lambda c: pruning.next_tenant(c, ""))
        while tenant is not None:
            of_tenant, skipped = tenant, retention.experiments
            while some := await store.read(
                lambda c: pruning.beyond_newest(c, of_tenant, skipped, EXPERIMENTS_AT_ONCE)  # noqa: B023
            ):
                skipped += len(some)
                for one in some:
                    if one.experiment_id not in by_age:
                        yield one
            tenant = await store.read(lambda c: pruning.next_tenant(c, of_tenant))  # noqa: B023


async def prune(
    store: Store, retention: Retention, note: Note | None = None
) -> AsyncIterator[EndedExperiment]:
    """Remove what the rule does not keep, and tell each experiment once it is gone.

    note: keeps something of a removal, in its transaction.

    Its rows go some at a time, so that others get their turn. What is left when the process is
    killed in between is removed when a lab starts, or by the next to prune.
    """
    for one in [found async for found in surplus(store, retention)]:
        if await store.write(lambda c: _delete(c, one, note)):  # noqa: B023
            await finish_removal(store, removing.RemovedKind.EXPERIMENT, one.experiment_id)
            yield one


def _delete(connection: StoreConnection, one: EndedExperiment, note: Note | None) -> bool:
    is_deleted = pruning.delete_if_over(connection, one)
    if is_deleted and note is not None:
        note(connection, one)
    return is_deleted
