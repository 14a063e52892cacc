"""Experiments as users read them: their progress and their outcome."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dragoman.clock import Clock
from dragoman.ids import TenantId
from dragoman.lab.experiments.starting import no_experiment
from dragoman.lab.model import DatasetId, Experiment, ExperimentId, Run, ScoreSummary, Stats
from dragoman.lab.repository import datasets, ending, experiments, runs
from dragoman.lab.states import ENDED, WORKING, RunMode
from dragoman.store import Store, StoreConnection


class Overview(msgspec.Struct, frozen=True):
    """An experiment with its progress."""

    experiment: Experiment
    stats: Stats
    items: int
    """The number of items, each repetition for itself, even while rows are still being made."""
    progress: float
    """The share of the latest run's items that are done, 0 to 1; stopped items are not done."""
    eta_seconds: float | None
    """The estimated time left at the present pace; None when there is no estimate."""
    dataset_id: DatasetId | None = None
    """The dataset whose version it uses; None where it uses none, or it was deleted."""
    scores: dict[str, ScoreSummary] = {}
    """As they were when the latest run ended; empty before."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing of it changes any more, unless a user changes the experiment itself."""
        return self.experiment.status in ENDED and (
            bool(self.scores) or not self.experiment.spec.evaluators
        )


class RunOverview(msgspec.Struct, frozen=True):
    """A run with its progress."""

    run: Run
    stats: Stats
    scores: dict[str, ScoreSummary] = {}
    """The experiment's scores as they were when the run ended; empty before."""


class ExperimentReading:
    """Reads experiments."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def show(self, tenant: TenantId, experiment_id: str) -> Overview:
        """An experiment as it stands."""
        now_ms = self._clock.now_ms()
        return await self._store.read(
            lambda c: _overview(c, _required(c, tenant, experiment_id), now_ms)
        )

    async def find(self, tenant: TenantId, name: str) -> Experiment | None:
        """The experiment of that name."""
        return await self._store.read(lambda c: experiments.find_by_name(c, tenant, name))

    async def overviews(
        self, tenant: TenantId, *, before: tuple[int, str] | None = None, most: int = 100
    ) -> list[Overview]:
        """Experiments as they stand, the latest first, from those made before (time, id)."""
        now_ms = self._clock.now_ms()

        def read(connection: StoreConnection) -> list[Overview]:
            found = experiments.list_experiments(connection, tenant, before=before, most=most)
            return [_overview(connection, one, now_ms) for one in found]

        return await self._store.read(read)

    async def overviews_since(
        self, tenant: TenantId, known: Mapping[ExperimentId, Overview], *, most: int
    ) -> list[Overview]:
        """The same as `overviews`; what is known and cannot have changed is not read again."""
        now_ms = self._clock.now_ms()

        def read(connection: StoreConnection) -> list[Overview]:
            found = experiments.list_experiments(connection, tenant, most=most)
            overviews = []
            for one in found:
                before = known.get(one.experiment_id)
                is_same = before is not None and before.experiment == one and before.is_settled
                overviews.append(
                    before if before and is_same else _overview(connection, one, now_ms)
                )
            return overviews

        return await self._store.read(read)

    async def runs(self, tenant: TenantId, experiment_id: str) -> list[RunOverview]:
        """Every run of an experiment, the latest first."""

        def read(connection: StoreConnection) -> list[RunOverview]:
            found = _required(connection, tenant, experiment_id)
            every = runs.runs_of(connection, found.experiment_id)
            scores = ending.kept_scores(connection, [run.run_id for run in every])
            return [
                RunOverview(run, ending.run_stats(connection, run), scores.get(run.run_id, {}))
                for run in every
            ]

        return await self._store.read(read)

    async def _found(self, tenant: TenantId, experiment_id: str) -> Experiment:
        return await self._store.read(lambda c: _required(c, tenant, experiment_id))


def _required(connection: StoreConnection, tenant: TenantId, experiment_id: str) -> Experiment:
    found = experiments.find_experiment(connection, experiment_id, tenant=tenant)
    if found is None:
        raise no_experiment(experiment_id)
    return found


def _overview(connection: StoreConnection, experiment: Experiment, now_ms: int) -> Overview:
    run = None if experiment.run_id is None else runs.find_run(connection, experiment.run_id)
    stats = ending.experiment_totals(connection, experiment.experiment_id, run)
    version_id = experiment.spec.dataset_version_id
    version = version_id and datasets.find_version(connection, experiment.tenant, version_id)
    repetitions = experiment.spec.repetitions
    items = version.items * repetitions if version else 0
    dataset_id = version.dataset_id if version else None
    if run is None:
        return Overview(experiment, stats, items, 0.0, None, dataset_id)
    if run.trial_items is not None:
        items = min(items, run.trial_items * repetitions)
    items = max(items, stats.items)
    of_run = ending.run_stats(connection, run)
    done = of_run.success + of_run.fail
    expected = _expected(run, of_run, items, stats.success, repetitions)
    progress = min(1.0, done / expected) if expected else float(run.start_done)
    eta_seconds = None
    if run.status in WORKING and run.started_at_ms is not None and progress > 0:
        eta_seconds = max(0, now_ms - run.started_at_ms) / 1000 * (1 - progress) / progress
    scores: dict[str, ScoreSummary] = {}
    if run.status in ENDED:
        scores = ending.kept_scores(connection, [run.run_id]).get(run.run_id, {})
    return Overview(experiment, stats, items, progress, eta_seconds, dataset_id, scores)


def _expected(run: Run, of_run: Stats, items: int, succeeded: int, repetitions: int) -> int:
    """The number of items of the run, even while its rows are still being made."""
    if run.mode is RunMode.RETRY_ITEMS:
        return max(len(run.item_ids) * repetitions, run.items)
    if run.start_done:
        return max(run.items, of_run.ended)
    if run.mode is RunMode.FAIL_RETRY:
        # Those that had not succeeded before it; what it has done since is among the succeeded.
        return max(items - succeeded + of_run.success, of_run.ended)
    return items
