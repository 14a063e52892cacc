"""The results of experiments: rows and aggregates."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.errors import InvalidFilter, NotFound
from dragoman.ids import TenantId
from dragoman.lab.filters import EVERYTHING, SCORE, Filter, score_names
from dragoman.lab.model import Experiment, ExperimentId, ItemId, ResultRow, RunId
from dragoman.lab.repository import aggregates, experiments, ordering, results, runs
from dragoman.spelling import nearest
from dragoman.store import Connection, Store

Aggregate = aggregates.Aggregate
Aggregates = aggregates.Aggregates
Bin = aggregates.Bin
Cause = aggregates.Cause
Failures = aggregates.Failures
Place = ordering.Place
Sorting = ordering.Sorting


class Results:
    """Reads results for the tenant that an experiment belongs to."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(
        self,
        tenant: TenantId,
        experiment_id: str,
        *,
        wanted: Filter = EVERYTHING,
        sorting: Sequence[Sorting] = (),
        after: Place | None = None,
        most: int = 100,
        run_id: str | None = None,
    ) -> tuple[list[ResultRow], Place | None]:
        """Some rows, and where the next ones begin, if there are more."""

        def read(connection: Connection) -> tuple[list[ResultRow], Place | None]:
            found, run = _asked_for(connection, tenant, experiment_id, run_id)
            sorted_by = {sort.field for sort in sorting if sort.field.startswith(SCORE)}
            _check_scores(found, score_names(wanted) | {_score(field) for field in sorted_by})
            return results.result_page(
                connection, found.experiment_id, run, wanted, sorting, after, most
            )

        return await self._store.read(read)

    async def of_items(
        self, experiment_id: ExperimentId, item_ids: Sequence[ItemId]
    ) -> list[ResultRow]:
        """Every turn of these items, as they stand."""
        return await self._store.read(lambda c: results.rows_of_items(c, experiment_id, item_ids))

    async def aggregates(
        self,
        tenant: TenantId,
        experiment_id: str,
        *,
        wanted: Filter = EVERYTHING,
        run_id: str | None = None,
    ) -> Aggregates:
        """The aggregates of the rows; final when the experiment has ended."""

        def read(connection: Connection) -> Aggregates:
            found, run = _asked_for(connection, tenant, experiment_id, run_id)
            _check_scores(found, score_names(wanted))
            return aggregates.aggregates_of(
                connection,
                found.experiment_id,
                [evaluator.name for evaluator in found.spec.evaluators],
                run_id=run,
                wanted=wanted,
            )

        return await self._store.read(read)


def _check_scores(experiment: Experiment, names: set[str]) -> None:
    """Refuse a score that no evaluator of the experiment gives: it would silently match nothing."""
    known = [evaluator.name for evaluator in experiment.spec.evaluators]
    for name in sorted(names.difference(known)):
        meant = nearest(name, known)
        hint = f"did you mean {meant!r}?" if meant else f"it has {', '.join(known) or 'none'}."
        raise InvalidFilter(
            f"No evaluator of {experiment.spec.name!r} gives a score {name!r}; {hint}",
            details={"field": f"{SCORE}{name}"},
        )


def _score(field: str) -> str:
    return field.removeprefix(SCORE)


def _asked_for(
    connection: Connection, tenant: TenantId, experiment_id: str, run_id: str | None
) -> tuple[Experiment, RunId | None]:
    """The experiment, and the run of it that is asked for, if one is."""
    found = experiments.find_experiment(connection, experiment_id, tenant=tenant)
    if found is None:
        raise NotFound(
            f"No experiment has the id {experiment_id!r}; `dragoman experiment list` shows them."
        )
    if run_id is None:
        return found, None
    run = runs.find_run(connection, RunId(run_id))
    if run is None or run.experiment_id != found.experiment_id:
        raise NotFound(f"Experiment {experiment_id} has no run {run_id!r}.")
    return found, run.run_id
