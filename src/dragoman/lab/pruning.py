"""Retention: experiments that have been over for long, or are too many, are removed.

Of those that never end, runs that ended long ago are removed, and items that were done long ago.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial

import msgspec

from dragoman.ids import TenantId
from dragoman.lab.model import Experiment, ExperimentId, ItemId, RunId
from dragoman.lab.removal import finish_removal
from dragoman.lab.repository import (
    EndedExperiment,
    experiments,
    expiring,
    pruning,
    read_now_ms,
    removing,
)
from dragoman.store import Store, StoreConnection

__all__ = ["EndedExperiment", "Expired", "Retention", "expire", "prune", "surplus"]

DAY_MS = 24 * 3600 * 1000
EXPERIMENTS_AT_ONCE = 100

ITEMS_LOOKED_AT = 1_000
ITEMS_REMOVED_AT_ONCE = 100
"""Each goes with its turns, scores and outputs, in one transaction."""

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


# --- experiments that never end -------------------------------------------------------------------


class Expired(msgspec.Struct, frozen=True):
    """What an experiment that never ends has of runs and of added items that are too old."""

    experiment_id: ExperimentId
    tenant: TenantId
    name: str
    runs: int
    items: int


async def expire(
    store: Store, retention: Retention, *, dry_run: bool = False
) -> AsyncIterator[Expired]:
    """Remove ended runs and added items that are older than the rule keeps, and tell of them.

    Only of experiments that run or that start by themselves again. The latest run stays, and so
    does one whose results the experiment shows.
    """
    if not retention.days:
        return
    before_ms = await store.read(read_now_ms) - round(retention.days * DAY_MS)
    for experiment_id in await store.read(expiring.never_ending):
        known = await store.read(
            lambda c: experiments.find_experiment(c, experiment_id)  # noqa: B023
        )
        if known is None:
            continue
        runs = await _expire_runs(store, known, before_ms, dry_run=dry_run)
        items = await _expire_items(store, known, before_ms, dry_run=dry_run)
        if runs or items:
            yield Expired(known.experiment_id, known.tenant, known.spec.name, runs, items)


async def _expire_runs(store: Store, known: Experiment, before_ms: int, *, dry_run: bool) -> int:
    old = await store.read(lambda c: expiring.old_runs(c, known, before_ms))
    if dry_run:
        return len(old)
    removed = 0
    for run_id in old:
        if await store.write(lambda c: expiring.drop_run(c, known.experiment_id, run_id)):  # noqa: B023
            await finish_removal(store, removing.RemovedKind.RUN, run_id)
            removed += 1
    return removed


async def _expire_items(store: Store, known: Experiment, before_ms: int, *, dry_run: bool) -> int:
    run_id = known.run_id
    if run_id is None or not await store.read(lambda c: expiring.takes_items(c, known)):
        return 0
    found, after = 0, ""
    while looked := await store.read(
        lambda c: expiring.old_items(c, known, before_ms, after, ITEMS_LOOKED_AT)  # noqa: B023
    ):
        after = looked.last
        if dry_run:
            found += len(looked.old)
            continue
        for first in range(0, len(looked.old), ITEMS_REMOVED_AT_ONCE):
            some = looked.old[first : first + ITEMS_REMOVED_AT_ONCE]
            found += await store.write(partial(_remove_items, known, run_id, some, before_ms))
    return found


def _remove_items(
    known: Experiment,
    run_id: RunId,
    some: list[ItemId],
    before_ms: int,
    connection: StoreConnection,
) -> int:
    return expiring.remove_own_items(connection, known.experiment_id, run_id, some, before_ms)
