"""Driving one run: from its first row to its end, under a lease that only one process has."""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec

from dragoman.clock import Clock
from dragoman.errors import StoreError
from dragoman.lab.budgets import Quota
from dragoman.lab.chain import Handler, chain
from dragoman.lab.feed import Change, ItemsArchived, RunEnded, WatcherFeed
from dragoman.lab.model import Experiment, ItemKey, Run, RunId
from dragoman.lab.queue import ItemOffer, Queue
from dragoman.lab.repository import (
    Held,
    Ousted,
    aggregates,
    dispatching,
    ending,
    experiments,
    leases,
    quotas,
    runs,
)
from dragoman.lab.scheduler.rescue import archive_one_by_one, give_up_run
from dragoman.lab.scheduler.step import DriverStep, RunPlan, refill, take_step
from dragoman.lab.states import ENDED
from dragoman.observability import Metrics, get_logger
from dragoman.settings import LabSettings
from dragoman.store import Store, StoreConnection

RENEWALS_IN_A_LEASE = 3
STRIKES = 3
"""How often in a row a step may raise an unexpected error before the run fails."""

SHOW_EVERY_SECONDS = 0.1
"""While there is work to hand out, it comes first: results appear this much later."""

_TROUBLE_PAUSE_SECONDS = 0.5


class Drive:
    """A run on its way through the chain."""

    def __init__(self, run_id: RunId) -> None:
        self.run_id = run_id
        self.wake = asyncio.Event()
        self.held: Held | None = None
        self.strikes = 0
        """How often it broke since it last made progress."""


class Driver:
    """Drives runs, each in a task of its own: error shield, state check, lock, execution."""

    def __init__(
        self,
        store: Store,
        queue: Queue,
        settings: LabSettings,
        feed: WatcherFeed,
        *,
        owner: str,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._store = store
        self._queue = queue
        self._settings = settings
        self._feed = feed
        self._owner = owner
        self._clock = clock
        self._metrics = metrics
        self._log = get_logger(__name__, clock)
        self._default_quota = Quota(tokens=settings.tenant_tokens, cost=settings.tenant_cost)
        self._lease_ms = round(settings.lease_seconds * 1000)
        self._renewal_seconds = settings.lease_seconds / RENEWALS_IN_A_LEASE
        # Workers that went silent are noticed about when their leases run out.
        self._tick_seconds = min(settings.safety_tick_ms / 1000, self._renewal_seconds)
        self.drive: Handler[Drive] = chain([self._shield, self._check, self._lock], self._execute)

    # --- the chain ------------------------------------------------------------------------------

    async def _shield(self, drive: Drive, then: Handler[Drive]) -> None:
        """Keep one run's errors from the others, and try that run again after a pause."""
        while True:
            try:
                await then(drive)
                return
            except Ousted:
                self._log.info("lab_run_taken_over", run_id=drive.run_id)
                return
            except StoreError as error:
                self._log.warning_limited(
                    "lab_run_waits", key=drive.run_id, every_seconds=10, reason=error.message
                )
            except Exception as error:
                self._log.exception("lab_run_broke", run_id=drive.run_id)
                drive.strikes += 1
                if drive.strikes >= STRIKES:
                    await self._give_up(drive.run_id, f"{type(error).__name__}: {error}")
            await asyncio.sleep(_TROUBLE_PAUSE_SECONDS)

    async def _give_up(self, run_id: RunId, reason: str) -> None:
        """End a run that no process can drive, unless another process drives it now."""
        name = runs.lease_name(run_id)
        try:
            held = await self._store.write(
                lambda c: leases.take(c, name, self._owner, self._lease_ms)
            )
            if held is None:
                return
            ended = await give_up_run(
                self._store,
                held,
                run_id,
                reason,
                lease_ms=self._lease_ms,
                at_ms=self._clock.now_ms(),
            )
        except Ousted:
            return
        except Exception:
            self._log.exception("lab_run_cannot_end", run_id=run_id)
            return
        if ended is not None:
            self._tell_end(ended)

    async def _check(self, drive: Drive, then: Handler[Drive]) -> None:
        """Skip a run that has ended."""
        run = await self._store.read(lambda c: runs.find_run(c, drive.run_id))
        if run is not None and run.status not in ENDED:
            await then(drive)

    async def _lock(self, drive: Drive, then: Handler[Drive]) -> None:
        """Let only one process drive a run; another takes over when this one stops renewing."""
        name = runs.lease_name(drive.run_id)
        taking = asyncio.ensure_future(
            self._store.write(lambda c: leases.take(c, name, self._owner, self._lease_ms))
        )
        try:
            held = await asyncio.shield(taking)
        except asyncio.CancelledError:
            # The database takes it all the same; the next driver must not wait until it runs out.
            unused = await taking
            if unused is not None:
                await self._store.write(lambda c: leases.release(c, unused))
            raise
        if held is None:
            return
        drive.held = held
        renewing = asyncio.create_task(self._renew(held))
        try:
            await then(drive)
        finally:
            renewing.cancel()
            await self._store.write(lambda c: leases.release(c, held))

    async def _renew(self, held: Held) -> None:
        """Keep the lease, however long a step takes; without it, the next step is refused."""
        while True:
            await asyncio.sleep(self._renewal_seconds)
            try:
                await self._store.write(
                    lambda c: leases.renew(c, held, self._lease_ms), urgent=True
                )
            except Ousted:
                return
            except Exception as error:  # the next renewal may still come in time
                self._log.warning_limited(
                    "lab_lease_not_renewed", key=held.name, every_seconds=10, reason=str(error)
                )

    async def _execute(self, drive: Drive) -> None:
        """Take a step at every hint and every safety tick, until the run ends."""
        assert drive.held is not None
        held = drive.held
        found = await self._store.read(lambda c: _run_and_experiment(c, drive.run_id))
        if found is None:
            # Its former driver ended it before this one had the lease.
            await self._store.write(lambda c: leases.forget(c, held))
            return
        run, experiment = found
        looked_at, due_at = float("-inf"), float("-inf")
        unshown: list[ItemKey] = []
        quota = Quota()
        while True:
            drive.wake.clear()
            now = self._clock.monotonic()
            look_around = now - looked_at >= self._tick_seconds
            if look_around:
                quota = await self._store.read(lambda c: quotas.find_quota(c, run.tenant))
            plan = self._plan(held, run, experiment, quota, look_around)
            if now < due_at and not look_around and await self._is_full(plan):
                # Workers go from item to item by themselves: there are only results to show.
                await _woken(drive.wake, due_at - now)
                continue
            handed_out = await self._refill(plan)
            unshown += handed_out
            if handed_out and now < due_at and not look_around:
                await _woken(drive.wake, due_at - now)
                continue
            step = await self._step(msgspec.structs.replace(plan, handed_out=unshown))
            drive.strikes = 0
            experiment, unshown = step.experiment, []
            looked_at = now if look_around else looked_at
            due_at = now if step.more else now + SHOW_EVERY_SECONDS
            self._tell(step)
            if step.ended is not None:
                await self._keep_aggregates(step.run)
                return
            if not step.more:
                await _woken(drive.wake, self._tick_seconds)

    # --- one step -------------------------------------------------------------------------------

    def _plan(
        self, held: Held, run: Run, experiment: Experiment, quota: Quota, look_around: bool
    ) -> RunPlan:
        asked = experiment.spec.concurrency or self._settings.item_concurrency
        return RunPlan(
            held,
            run,
            experiment,
            concurrency=min(asked, self._settings.max_item_concurrency),
            tenant_budget=quota.over(self._default_quota).balance,
            look_around=look_around,
        )

    async def _is_full(self, plan: RunPlan) -> bool:
        return await self._store.read(
            lambda c: dispatching.count_worked_on(c, plan.run) >= plan.concurrency
        )

    async def _refill(self, plan: RunPlan) -> list[ItemKey]:
        handed_out = await self._store.write(lambda c: refill(c, plan))
        if handed_out:
            self._queue.offers.put(ItemOffer(plan.run.run_id, tuple(handed_out)))
        return handed_out

    async def _step(self, plan: RunPlan) -> DriverStep:
        try:
            return await self._store.write(lambda c: take_step(c, plan))
        except Ousted:
            raise
        except Exception as error:
            if isinstance(error, StoreError) and error.is_passing:
                raise  # no item is at fault
            moved = await archive_one_by_one(self._store, plan, self._log)
            if not moved:
                raise
            step = await self._store.write(lambda c: take_step(c, plan))
            return msgspec.structs.replace(step, archived=[*moved, *step.archived])

    async def _keep_aggregates(self, run: Run) -> None:
        """Store the aggregates at the end of this run, unless the next run has begun."""

        def amount(connection: StoreConnection) -> aggregates.Aggregates | None:
            now = experiments.find_experiment(connection, run.experiment_id)
            if now is None or now.run_id != run.run_id:
                return None
            spec = now.spec
            return aggregates.aggregates_of(
                connection,
                run.experiment_id,
                spec.evaluators,
                numbers=spec.evaluator_numbers or None,
                repetitions=spec.repetitions,
            )

        found = await self._store.read(amount)
        if found is not None:
            await self._store.write(lambda c: ending.keep_aggregates(c, run, found))

    def _tell(self, step: DriverStep) -> None:
        run = step.run
        if step.untaken:
            self._metrics.lab_items_offered_again.inc(len(step.untaken))
            self._queue.offers.put(ItemOffer(run.run_id, tuple(step.untaken)))
        if step.terminated:
            self._queue.stops.put(run.run_id)
        lost = len(step.taken_back.queued) + len(step.taken_back.lost)
        if lost:
            self._metrics.lab_zombies.inc(lost)
            self._log.warning("lab_items_taken_back", run_id=run.run_id, items=lost)
        for status, number in Counter(one.status for one in step.archived).items():
            self._metrics.lab_items.labels(status.value).inc(number)
        if step.archived:
            keys = tuple(one.key for one in step.archived)
            self._publish(ItemsArchived(run.experiment_id, run.run_id, keys))
        if step.ended is not None:
            self._tell_end(msgspec.structs.replace(run, status=step.ended))

    def _tell_end(self, run: Run) -> None:
        self._queue.stops.put(run.run_id)
        self._metrics.lab_runs_ended.labels(run.status.value).inc()
        self._log.info("lab_run_ended", run_id=run.run_id, status=run.status.value)
        self._publish(RunEnded(run.experiment_id, run.run_id, run.status))

    def _publish(self, change: Change) -> None:
        """Tell watchers here at once, and those of other instances through the queue."""
        self._feed.publish(change)
        self._queue.changes.put(change)


def _run_and_experiment(
    connection: StoreConnection, run_id: RunId
) -> tuple[Run, Experiment] | None:
    """The run with its experiment; None once it has ended."""
    run = runs.find_run(connection, run_id)
    if run is None or run.status in ENDED:
        return None
    experiment = experiments.find_experiment(connection, run.experiment_id)
    assert experiment is not None, "an experiment with a run that has not ended is never deleted"
    return run, experiment


async def _woken(wake: asyncio.Event, timeout_seconds: float) -> None:
    try:
        async with asyncio.timeout(timeout_seconds):
            await wake.wait()
    except TimeoutError:
        pass
