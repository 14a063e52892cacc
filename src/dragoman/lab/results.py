"""The results of experiments: rows and aggregates."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dragoman.errors import InvalidFilter, NotFound
from dragoman.ids import TenantId
from dragoman.lab.filters import EVERYTHING, SCORE, Filter, score_names
from dragoman.lab.model import Experiment, ExperimentId, ItemKey, ResultRow, Run, RunId
from dragoman.lab.repository import aggregates, experiments, ordering, repeating, results, runs
from dragoman.spelling import nearest
from dragoman.store import Connection, Store

Aggregate = aggregates.Aggregate
Aggregates = aggregates.Aggregates
Bin = aggregates.Bin
Cause = aggregates.Cause
Failures = aggregates.Failures
Repeated = repeating.Repeated
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
                connection,
                found.experiment_id,
                None if run is None else run.run_id,
                wanted,
                sorting,
                after,
                most,
                _numbers(found, run),
            )

        return await self._store.read(read)

    async def of_items(
        self, experiment_id: ExperimentId, keys: Sequence[ItemKey]
    ) -> list[ResultRow]:
        """Every turn of these repetitions of items, as they stand."""

        def read(connection: Connection) -> list[ResultRow]:
            found = experiments.find_experiment(connection, experiment_id)
            if found is None:
                return []
            numbers = _numbers(found, None)
            return results.rows_of_items(connection, experiment_id, keys, numbers)

        return await self._store.read(read)

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
            of_run = None if run is None else run.evaluators
            evaluators = found.spec.evaluators if of_run is None else of_run
            return aggregates.aggregates_of(
                connection,
                found.experiment_id,
                [evaluator.name for evaluator in evaluators],
                run_id=None if run is None else run.run_id,
                wanted=wanted,
                numbers=_numbers(found, run),
                repetitions=found.spec.repetitions,
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
) -> tuple[Experiment, Run | None]:
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
    return found, run


def _numbers(experiment: Experiment, run: Run | None) -> Collection[int] | None:
    """The numbers of the evaluators whose scores are shown; None: all that the run has.

    Only an experiment whose evaluators changed has scores of others in its rows.
    """
    is_changed = run is None and experiment.spec.evaluator_numbers
    return experiment.spec.evaluator_numbers if is_changed else None
