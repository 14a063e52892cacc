"""The lab plane assembled: the scheduler, the worker, and the experiments."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from dragoman.clock import Clock
from dragoman.ids import TenantId
from dragoman.lab.audio import audio_columns
from dragoman.lab.bench_opening import BenchMaker
from dragoman.lab.budgets import Quota
from dragoman.lab.cleaning import Cleaner
from dragoman.lab.estimates import Estimates
from dragoman.lab.evaluators import FunctionProcessPool
from dragoman.lab.experiments import Experiments
from dragoman.lab.feed import WatcherFeed
from dragoman.lab.model import ExperimentId, ExperimentSpec, RunId
from dragoman.lab.owners import new_owner
from dragoman.lab.pace import target_key, target_title
from dragoman.lab.plugins import Context
from dragoman.lab.presence import Activity, LabPresence
from dragoman.lab.queue import InProcessQueue, Queue
from dragoman.lab.repository import SeenWorker, TargetPace, datasets, pacing, workers
from dragoman.lab.response_cache import clear_answers
from dragoman.lab.roles import SERVER, LabRole
from dragoman.lab.scheduler import Scheduler
from dragoman.lab.timetable import Timetable
from dragoman.lab.worker import Terms, Worker
from dragoman.observability import Metrics
from dragoman.randomness import Randomness
from dragoman.settings import LabSettings
from dragoman.store import Store


class Lab:
    """Experiments on one database: the server's lab, or the one inside a program.

    ``async with Lab(store, settings.lab, clock, randomness, metrics) as lab`` starts and stops it;
    ``lab.experiments`` is what users ask, ``lab.estimates`` what a run will take, ``lab.feed``
    tells what happens. The caller closes the store.
    """

    def __init__(
        self,
        store: Store,
        settings: LabSettings,
        clock: Clock,
        randomness: Randomness,
        metrics: Metrics,
        *,
        context: Context | None = None,
        role: LabRole = SERVER,
        schedules: bool = True,
        works: bool = True,
        queue: Queue | None = None,
        capacity: int | None = None,
        mirror: str = "",
    ) -> None:
        """`role`: what it does for other processes on the database.

        A process may also only schedule, or only work, beside others on the same database; they
        hear of each other's work through `queue`, which the caller closes. `capacity`: items it
        works on at once, if not as many as the settings say. `mirror`: the kind of columnar copy
        that goes with it, for others to know.
        """
        context = context or Context(
            settings.python_allow,
            settings.http_allow,
            key_env_allow=settings.key_env_allow,
            clock=clock,
        )
        random = randomness.stream("lab")
        owner = new_owner(random)
        self._queue = queue = queue or InProcessQueue()
        self.feed = WatcherFeed()
        self._hearing: asyncio.Task[None] | None = None
        self._store = store
        self._processes = FunctionProcessPool(os.cpu_count() or 1)
        self.experiments = Experiments(
            store,
            settings,
            context,
            clock=clock,
            random=randomness.stream("experiments"),
            role=role,
            on_started=self.resume,
            on_news=queue.news.put,
            on_killed=queue.stops.put,
        )
        self._scheduler = Scheduler(
            store,
            queue,
            settings,
            self.feed,
            owner=owner,
            clock=clock,
            metrics=metrics,
            adopts=role.serves_others,
            cannot_open=self.experiments.cannot_open,
            end=self.experiments.end_run,
        )
        benches = BenchMaker(
            store,
            settings,
            context,
            self._processes,
            randomness.stream("bench"),
            self._audio_columns,
        )
        self.estimates = Estimates(store, self.experiments, benches, clock)
        self._worker = Worker(
            store,
            queue,
            benches.open,
            Terms(
                capacity=capacity or settings.max_item_concurrency,
                lease_ms=round(settings.lease_seconds * 1000),
                tick_seconds=settings.safety_tick_ms / 1000,
                any_run=role.serves_others,
                tenant_weights=settings.tenant_weights,
                tenant_limits=Quota(tokens=settings.tenant_tokens, cost=settings.tenant_cost),
            ),
            owner=owner,
            clock=clock,
            metrics=metrics,
        )
        self.presence = LabPresence(
            store,
            clock,
            owner=owner,
            activity=self._activity,
            capacity=(capacity or settings.max_item_concurrency) if works else 0,
            schedules=schedules,
            mirror=mirror,
        )
        self._parts: list[Worker | Scheduler | Cleaner | LabPresence | Timetable] = []
        if role.is_listed and (works or schedules):
            self._parts.append(self.presence)
        if works:
            self._parts.append(self._worker)
        if schedules:
            freed = context.audio_folder if context.frees_audio else None
            cleaner = Cleaner(store, clock, freed, settings=settings)
            self._parts += [self._scheduler, cleaner]
            if role.serves_others:
                tick_seconds = settings.safety_tick_ms / 1000
                self._parts.append(Timetable(self.experiments, clock, tick_seconds=tick_seconds))

    async def start(self) -> None:
        """Begin to drive runs and to carry out their items."""
        self._hearing = asyncio.create_task(self._hear_changes())
        for part in self._parts:
            await part.start()

    async def stop(self) -> None:
        """Stop; the next lab on this database resumes what is not done."""
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.gather(self._hearing, return_exceptions=True)
        for part in reversed(self._parts):
            await part.stop()
        await self._processes.close()

    async def workers(self) -> list[SeenWorker]:
        """Every process on this database that reported lately, and what it works on."""
        return await self._store.read(workers.seen)

    async def pace(self, tenant: TenantId, experiment_id: ExperimentId) -> tuple[TargetPace, int]:
        """The pace of an experiment's target, and how many calls at once workers may make now."""
        target = (await self.experiments.show(tenant, experiment_id)).experiment.spec.target
        key = target_key(tenant, target)
        unknown = TargetPace(key, tenant, target_title(target), None, None)
        return await self._store.read(
            lambda c: (pacing.find(c, [key]).get(key, unknown), pacing.granted(c, key))
        )

    async def set_pace(
        self, tenant: TenantId, experiment_id: ExperimentId, calls_at_once: int | None
    ) -> None:
        """Set how many calls at once an experiment's target takes from all workers and runs.

        It holds for every experiment of the tenant on that target, also while they run.
        """
        target = (await self.experiments.show(tenant, experiment_id)).experiment.spec.target
        key, title = target_key(tenant, target), target_title(target)
        await self._store.write(lambda c: pacing.set_most(c, key, tenant, title, calls_at_once))

    async def drain(self) -> None:
        """Take no more items, and wait until those in progress are done; then stop it."""
        await self._worker.drain()

    def _activity(self) -> Activity:
        worker = self._worker
        return Activity(worker.doing(), worker.items_done, worker.is_draining)

    async def clear_answers(self, tenant: TenantId) -> int:
        """Forget every cached answer of a tenant; how many there were."""
        return await clear_answers(self._store, tenant)

    def resume(self, run_id: RunId) -> None:
        """Resume a run that this program started, perhaps before it was stopped."""
        self._scheduler.take_on(run_id)

    async def _hear_changes(self) -> None:
        """Bring what other instances did to the watchers of this one."""
        while True:
            for change in await self._queue.changes.take():
                self.feed.publish(change)

    async def _audio_columns(self, spec: ExperimentSpec) -> Sequence[str]:
        version_id = spec.dataset_version_id
        if version_id is None:
            return ()
        schema = await self._store.read(lambda c: datasets.schema_of_version(c, version_id))
        return audio_columns(schema)

    async def __aenter__(self) -> Lab:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()
