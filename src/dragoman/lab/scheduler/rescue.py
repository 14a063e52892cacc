"""What the driver does when a step fails: it moves results one by one, or ends the run."""

from __future__ import annotations

from functools import partial

import msgspec

from dragoman.errors import StoreError
from dragoman.lab.model import ItemKey, Run, RunId
from dragoman.lab.repository import (
    Held,
    Logged,
    Ousted,
    archiving,
    ending,
    giving_up,
    leases,
    runs,
)
from dragoman.lab.scheduler.step import ARCHIVE_BATCH, TERMINATE_BATCH, RunPlan
from dragoman.lab.states import ENDED, ItemStatus, RunStatus
from dragoman.observability import Log
from dragoman.store import Store, StoreConnection, Work


async def archive_one_by_one(store: Store, plan: RunPlan, log: Log) -> list[Logged]:
    """Move results alone, each in a transaction, and close those that cannot be moved.

    One item that cannot be archived must not hold up the others. Returns the items it handled.
    """
    logged = await store.read(lambda c: archiving.waiting_items(c, plan.run, ARCHIVE_BATCH))
    moved: list[Logged] = []
    for one in logged:
        if await _archived(store, plan, one) or await _archived(store, plan, one):
            moved.append(one)
            continue
        log.error("lab_item_not_archived", run_id=plan.run.run_id, item_id=one.item_id)
        await _close(store, plan, one.key)
        moved.append(msgspec.structs.replace(one, status=ItemStatus.FAIL))
    return moved


async def _archived(store: Store, plan: RunPlan, one: Logged) -> bool:
    return await _done(store, plan, lambda c: archiving.archive(c, plan.run, [one]))


async def _close(store: Store, plan: RunPlan, key: ItemKey) -> None:
    """Close the item; its turns, too, if they are not what cannot be written."""
    for with_turns in (True, False):
        close = partial(archiving.give_up_archiving, run=plan.run, key=key, with_turns=with_turns)
        if await _done(store, plan, close):
            return


async def _done(store: Store, plan: RunPlan, work: Work[None]) -> bool:
    """Whether the database did this, alone and under the driver's lease."""

    def fenced(connection: StoreConnection) -> None:
        leases.require(connection, plan.held)
        work(connection)

    try:
        await store.write(fenced)
    except Ousted:
        raise
    except Exception as error:
        if isinstance(error, StoreError) and error.is_passing:
            raise
        # When the database is away, this fails too: the item is not at fault.
        await store.write(lambda c: leases.require(c, plan.held))
        return False
    return True


async def give_up_run(
    store: Store, held: Held, run_id: RunId, reason: str, *, lease_ms: int, at_ms: int
) -> Run | None:
    """End a run that breaks again and again, so that it does not stay for ever.

    Its items are ended some at a time, so that others get their turn. The run as it ended; None
    when it had ended before.
    """

    def some(connection: StoreConnection) -> tuple[bool, Run | None]:
        """End some items; whether there may be more, and the run once it has ended."""
        leases.renew(connection, held, lease_ms)
        run = runs.find_run(connection, run_id, lock=True)
        if run is None or run.status in ENDED:
            leases.forget(connection, held)
            return False, None
        if giving_up.terminate(connection, run, reason, TERMINATE_BATCH):
            return True, None
        if logged := archiving.logged_items(connection, run, ARCHIVE_BATCH):
            archiving.archive(connection, run, logged)
            return True, None
        killed = run.status is RunStatus.TERMINATING
        status = RunStatus.TERMINATED if killed else RunStatus.FAILED
        ending.keep_counts(connection, run.run_id)
        runs.change_status(connection, run, status, at_ms=at_ms, reason=f"The run broke: {reason}")
        leases.forget(connection, held)
        return False, msgspec.structs.replace(run, status=status)

    more = True
    ended: Run | None = None
    while more:
        more, ended = await store.write(some)
    return ended
