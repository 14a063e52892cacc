"""The results of experiments: rows and aggregates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

import msgspec

from dragoman.errors import InvalidFilter, NotFound
from dragoman.ids import TenantId
from dragoman.lab.filters import EVERYTHING, LABEL, SCORE, Filter, Op, fields_of
from dragoman.lab.mirror import (
    BadPattern,
    Following,
    Mirror,
    MirrorAway,
    Places,
    check_patterns,
    columns_of,
    grouped_aggregates,
    result_places,
    searcher,
)
from dragoman.lab.model import Experiment, ExperimentId, ItemId, ResultRow, RunId
from dragoman.lab.names import nearest
from dragoman.lab.repository import (
    aggregates,
    by_hand,
    can_be_asked_in_sql,
    experiments,
    grouping,
    is_answered_by_sql,
    ordering,
    results,
    runs,
)
from dragoman.observability import get_logger
from dragoman.store import Connection, Store, Work

Aggregate = aggregates.Aggregate
Aggregates = aggregates.Aggregates
Bin = aggregates.Bin
Cause = aggregates.Cause
Failures = aggregates.Failures
Group = aggregates.Group
Outcomes = aggregates.Outcomes
Place = ordering.Place
Sorting = ordering.Sorting

Answer = TypeVar("Answer")

ROWS_IN_A_PIECE = 1_000
"""How many rows an export reads at a time."""


class Results:
    """Reads results for the tenant that an experiment belongs to.

    The columnar mirror answers where there is one and it is up to date; else the database does,
    with the same answers. Results as a run left them are the database's alone.
    """

    def __init__(self, store: Store, following: Following | None = None) -> None:
        self._store = store
        self._following = following
        self._log = get_logger(__name__)

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
        keys = ordering.keys_of(sorting)
        found, run = await self._asked_for(
            tenant, experiment_id, run_id, wanted, [key.field for key in keys]
        )

        def ask(mirror: Mirror) -> Places | tuple[list[ResultRow], Place | None]:
            return result_places(mirror, found.experiment_id, wanted, sorting, after, most)

        def read(connection: Connection) -> Places | tuple[list[ResultRow], Place | None]:
            which = (connection, found.experiment_id, run, wanted, sorting, after, most)
            if can_be_asked_in_sql(wanted) and all(is_answered_by_sql(key.field) for key in keys):
                return results.result_page(*which)
            return by_hand.result_page(*which, searcher())

        page = await self._answer(found.experiment_id, run, ask, read)
        if not isinstance(page, Places):
            return page
        # The mirror finds the rows; the database, which has each in one place, shows them.
        places = page.places
        shown = await self._store.read(lambda c: by_hand.rows_at(c, found.experiment_id, places))
        return shown, page.after

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
        group_by: str | None = None,
    ) -> Aggregates:
        """The aggregates of the rows; final when the experiment has ended.

        `group_by` is a column of the input, or another field by its whole name.
        """
        found, run = await self._asked_for(tenant, experiment_id, run_id, wanted, ())
        field = None if group_by is None else grouping.field_to_group_by(group_by)
        evaluators = found.spec.evaluators

        def ask(mirror: Mirror) -> Aggregates:
            return grouped_aggregates(mirror, found.experiment_id, evaluators, wanted, field)

        def read(connection: Connection) -> Aggregates:
            return _aggregates_from_tables(connection, found, run, wanted, field)

        return await self._answer(found.experiment_id, run, ask, read)

    async def stream(
        self,
        tenant: TenantId,
        experiment_id: str,
        *,
        wanted: Filter = EVERYTHING,
        run_id: str | None = None,
    ) -> AsyncIterator[list[ResultRow]]:
        """Every row that passes, in the order of the dataset, a page at a time."""
        after: Place | None = None
        while True:
            rows, after = await self.page(
                tenant,
                experiment_id,
                wanted=wanted,
                after=after,
                most=ROWS_IN_A_PIECE,
                run_id=run_id,
            )
            yield rows
            if after is None:
                return

    async def columns(
        self, tenant: TenantId, experiment_id: str, *, run_id: str | None = None
    ) -> dict[str, bool]:
        """The columns of inputs and outputs, each with whether it holds nothing but numbers."""
        found, run = await self._asked_for(tenant, experiment_id, run_id, EVERYTHING, ())
        return await self._answer(
            found.experiment_id,
            run,
            lambda mirror: columns_of(mirror, found.experiment_id),
            lambda connection: by_hand.columns_of(connection, found.experiment_id, run),
        )

    async def _answer(
        self,
        experiment_id: ExperimentId,
        run: RunId | None,
        ask: Callable[[Mirror], Answer],
        read: Work[Answer],
    ) -> Answer:
        """What the mirror says; what the database says where there is no mirror to ask."""
        mirror = None
        if self._following is not None and run is None:
            mirror = await self._following.up_to_date(experiment_id)
        if mirror is not None:
            try:
                return await asyncio.to_thread(ask, mirror)
            except BadPattern as error:
                raise InvalidFilter(error.message, details={"field": "matches"}) from error
            except MirrorAway as error:
                self._log.warning_limited(
                    "lab_mirror_away", key="", every_seconds=60, reason=error.message
                )
        return await self._store.read(read)

    async def _asked_for(
        self,
        tenant: TenantId,
        experiment_id: str,
        run_id: str | None,
        wanted: Filter,
        sorted_by: Sequence[str],
    ) -> tuple[Experiment, RunId | None]:
        """The experiment and the run that are asked for, once the fields asked for are checked."""
        found, run = await self._store.read(lambda c: _found(c, tenant, experiment_id, run_id))
        fields = {condition.field for condition in fields_of(wanted)} | set(sorted_by)
        _check_scores(found, fields)
        if any(condition.op is Op.MATCHES for condition in fields_of(wanted)):
            await asyncio.to_thread(check_patterns, wanted)
        return found, run


def _aggregates_from_tables(
    connection: Connection,
    found: Experiment,
    run: RunId | None,
    wanted: Filter,
    field: str | None,
) -> Aggregates:
    experiment_id, evaluators = found.experiment_id, found.spec.evaluators
    only = None
    if not can_be_asked_in_sql(wanted):
        passing = grouping.passing_turns(connection, experiment_id, run, wanted, searcher())
        only = grouping.among_turns(passing)
    whole = aggregates.aggregates_of(
        connection, experiment_id, evaluators, run_id=run, wanted=wanted, only=only
    )
    if field is None:
        return whole
    every = grouping.groups_of(connection, experiment_id, run, wanted, field, searcher())
    groups = tuple(
        Group(
            value,
            len(turns),
            aggregates.aggregates_of(
                connection,
                experiment_id,
                evaluators,
                run_id=run,
                only=grouping.among_turns(turns),
            ),
        )
        for value, turns in every[: grouping.MAX_GROUPS]
    )
    more = max(0, len(every) - grouping.MAX_GROUPS)
    return msgspec.structs.replace(whole, groups=groups, more_groups=more)


def _check_scores(experiment: Experiment, fields: set[str]) -> None:
    """Refuse a score that no evaluator of the experiment gives: it would silently match nothing."""
    known = [evaluator.name for evaluator in experiment.spec.evaluators]
    names = {
        field.removeprefix(prefix)
        for field in fields
        for prefix in (SCORE, LABEL)
        if field.startswith(prefix)
    }
    for name in sorted(names.difference(known)):
        meant = nearest(name, known)
        hint = f"did you mean {meant!r}?" if meant else f"it has {', '.join(known) or 'none'}."
        raise InvalidFilter(
            f"No evaluator of {experiment.spec.name!r} gives a score {name!r}; {hint}",
            details={"field": f"{SCORE}{name}"},
        )


def _found(
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
