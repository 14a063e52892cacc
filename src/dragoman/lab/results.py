"""The results of experiments: rows and aggregates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeVar

import msgspec
from cachetools import FIFOCache

from dragoman.clock import SystemClock
from dragoman.errors import InvalidFilter, InvalidMessage, NotFound
from dragoman.ids import TenantId
from dragoman.lab.annotations import (
    Calibrator,
    JudgedRow,
    agreement_of,
    calibrations_of,
    is_judge,
    judged_rows,
)
from dragoman.lab.filters import EVERYTHING, INPUT, LABEL, OUTPUT, SCORE, Filter, Op, fields_of
from dragoman.lab.mirror import (
    BadPattern,
    Following,
    Mirror,
    MirrorAway,
    Mirrored,
    Places,
    Stamp,
    TooSlow,
    check_patterns,
    columns_of,
    count_rows,
    grouped_aggregates,
    result_places,
    searcher,
)
from dragoman.lab.model import (
    EvaluatorSpec,
    Experiment,
    ExperimentId,
    ItemKey,
    ResultRow,
    Run,
    RunId,
)
from dragoman.lab.repository import (
    Numbers,
    adding_up,
    aggregates,
    by_hand,
    can_be_asked_in_sql,
    experiments,
    hours,
    is_answered_by_sql,
    ordering,
    repeating,
    result_rows,
    runs,
    tries,
)
from dragoman.observability import get_logger
from dragoman.spelling import nearest
from dragoman.store import Store, StoreConnection, Work

Aggregate = aggregates.Aggregate
Aggregates = aggregates.Aggregates
Bin = aggregates.Bin
Cause = aggregates.Cause
Failures = aggregates.Failures
Group = aggregates.Group
GroupedAggregates = aggregates.GroupedAggregates
HOUR_MS = hours.HOUR_MS
HourOfScores = hours.HourOfScores
Outcomes = aggregates.Outcomes
MAX_HOURS = hours.MAX_HOURS
PERCENTILES = aggregates.PERCENTILES
Repeated = repeating.Repeated
Place = ordering.Place
Sorting = ordering.Sorting

Answer = TypeVar("Answer")

_TRIES = 3
"""How often a mirror is asked that changes while it is read; then the database is."""
_KEPT_ANSWERS = 100

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
        self._recent = _Recent()
        self._calibrator = Calibrator(store, SystemClock())
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
        asked = await self._asked_for(
            tenant, experiment_id, run_id, wanted, [key.field for key in keys]
        )

        def ask(mirror: Mirror) -> Places | tuple[list[ResultRow], Place | None]:
            return result_places(mirror, asked.mirrored, wanted, sorting, after, most)

        def read(connection: StoreConnection) -> Places | tuple[list[ResultRow], Place | None]:
            which = (connection, asked.experiment_id, asked.run_id, wanted, sorting, after, most)
            if can_be_asked_in_sql(wanted) and all(is_answered_by_sql(key.field) for key in keys):
                return result_rows.result_page(*which, asked.numbers)
            return by_hand.result_page(*which, searcher(), asked.numbers)

        page = await self._answer(asked, ask, read)
        if not isinstance(page, Places):
            return page
        # The mirror finds the rows; the database, which has each in one place, shows them.
        places = page.places
        shown = await self._store.read(
            lambda c: result_rows.rows_at(c, asked.experiment_id, places, numbers=asked.numbers)
        )
        return shown, page.after

    async def count(
        self,
        tenant: TenantId,
        experiment_id: str,
        *,
        wanted: Filter = EVERYTHING,
        run_id: str | None = None,
    ) -> int:
        """How many rows pass."""
        asked = await self._asked_for(tenant, experiment_id, run_id, wanted, ())

        def read(connection: StoreConnection) -> int:
            which = (connection, asked.experiment_id, asked.run_id, wanted)
            if can_be_asked_in_sql(wanted):
                return result_rows.count_rows(*which, asked.numbers)
            return sum(1 for _ in adding_up.Passing(*which, searcher(), asked.numbers))

        return await self._answer(
            asked,
            lambda mirror: count_rows(mirror, asked.mirrored, wanted),
            read,
            repr(("count", asked.mirrored, wanted)),
        )

    async def of_items(
        self, experiment_id: ExperimentId, keys: Sequence[ItemKey]
    ) -> list[ResultRow]:
        """Every turn of these repetitions of items, as they stand."""

        def read(connection: StoreConnection) -> list[ResultRow]:
            found = experiments.find_experiment(connection, experiment_id)
            if found is None:
                return []
            numbers = _numbers(found, None)
            return result_rows.rows_of_items(connection, experiment_id, keys, numbers)

        return await self._store.read(read)

    async def tries(
        self, tenant: TenantId, experiment_id: str, item_id: str, repetition: int = 1
    ) -> list[tries.Try]:
        """Every try of one repetition of an item, in every run, the latest first."""

        def read(connection: StoreConnection) -> list[tries.Try]:
            experiment = _found(connection, tenant, experiment_id, None).experiment
            key = tries.find_key(connection, experiment, item_id, repetition)
            if key is None:
                raise NotFound(
                    f"Experiment {experiment_id} has no row for repetition {repetition} of the "
                    f"item {item_id[:80]!r}; POST /experiments/{{id}}/results shows its rows."
                )
            return tries.tries_of(connection, experiment, key)

        return await self._store.read(read)

    async def aggregates(
        self,
        tenant: TenantId,
        experiment_id: str,
        *,
        wanted: Filter = EVERYTHING,
        run_id: str | None = None,
        group_by: str | None = None,
        cluster: str | None = None,
    ) -> GroupedAggregates:
        """The aggregates of the rows; final when the experiment has ended. Grouped, if asked.

        `group_by` is a column of the input, or another field by its whole name. So is `cluster`:
        intervals take the rows of one value, such as a speaker, for one observation. Without it
        they take those of one item, its turns and repetitions, for one.
        """
        field, unit = (
            None if name is None else adding_up.field_to_group_by(name)
            for name in (group_by, cluster)
        )
        named = [one for one in (field, unit) if one is not None]
        asked = await self._asked_for(tenant, experiment_id, run_id, wanted, named)
        is_column = unit is not None and unit.startswith((INPUT, OUTPUT))
        if is_column and unit not in await self.columns(tenant, experiment_id, run_id=run_id):
            raise InvalidMessage(
                f"No row of {asked.name!r} has a column {cluster!r} to name clusters by.",
                details={"field": "cluster"},
            )

        def ask(mirror: Mirror) -> Aggregates:
            return grouped_aggregates(
                mirror, asked.mirrored, wanted, field, asked.repetitions, unit
            )

        def read(connection: StoreConnection) -> Aggregates:
            return _aggregates_from_tables(connection, asked, wanted, field, unit)

        question = repr((asked.mirrored, asked.repetitions, wanted, field, unit))
        found = await self._answer(asked, ask, read, question)
        told = await self._with_people(tenant, asked, wanted, found)
        return told if isinstance(told, GroupedAggregates) else aggregates.grouped(told)

    async def _with_people(
        self, tenant: TenantId, asked: _Asked, wanted: Filter, found: Aggregates
    ) -> Aggregates:
        """The aggregates with what people said of the rows, and how far judges agree with them.

        People judge few rows, so the database tells these, also where the mirror tells the rest.
        """

        def judged(connection: StoreConnection) -> tuple[list[JudgedRow], list[JudgedRow]]:
            rows = judged_rows(connection, asked.experiment_id, asked.numbers, asked.run_id)
            search = searcher()
            passing = [one for turn, one in rows if by_hand.turn_passes(turn, wanted, search)]
            return [one for _, one in rows], passing

        names = [one.name for one in asked.evaluators]
        everything, passing = await self._store.read(judged)
        people = await asyncio.to_thread(agreement_of, passing, names)
        if everything and asked.run_id is None and any(map(is_judge, asked.evaluators)):
            measured = people
            if len(passing) < len(everything):
                measured = await asyncio.to_thread(agreement_of, everything, names)
            await self._calibrator.keep(tenant, asked.experiment, measured)
        known = await self._store.read(
            lambda c: calibrations_of(c, tenant, asked.scored_by, asked.evaluators)
        )
        scores = {
            name: msgspec.structs.replace(score, calibration=known[name])
            if name in known
            else score
            for name, score in found.scores.items()
        }
        return msgspec.structs.replace(
            found, scores=scores, annotations=people if everything else msgspec.UNSET
        )

    async def by_hour(
        self, tenant: TenantId, experiment_id: str, *, since_ms: int
    ) -> list[HourOfScores]:
        """The scores of each hour from then on in which there were any."""
        asked = await self._asked_for(tenant, experiment_id, None, EVERYTHING, ())
        return await self._store.read(
            lambda c: hours.scores_by_hour(
                c, asked.experiment_id, asked.evaluators, asked.numbers, since_ms
            )
        )

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
        asked = await self._asked_for(tenant, experiment_id, run_id, EVERYTHING, ())
        return await self._answer(
            asked,
            lambda mirror: columns_of(mirror, asked.experiment_id),
            lambda connection: by_hand.columns_of(connection, asked.experiment_id, asked.run_id),
        )

    async def _answer(
        self,
        asked: _Asked,
        ask: Callable[[Mirror], Answer],
        read: Work[Answer],
        question: str | None = None,
    ) -> Answer:
        """What the mirror says; what the database says where there is no mirror to ask.

        The answer to a `question` is kept until something of the experiment changes.
        """
        following, experiment_id = self._following, asked.experiment_id
        if following is None or asked.run_id is not None:
            return await self._store.read(read)
        for _ in range(_TRIES):
            mirror = await following.up_to_date(experiment_id)
            if mirror is None:
                break
            stamp = following.stamp(experiment_id)
            known: Answer | None = self._recent.find(question, stamp)
            if known is not None:
                return known
            try:
                answer = await asyncio.to_thread(ask, mirror)
            except BadPattern as error:
                raise InvalidFilter(error.message, details={"field": "matches"}) from error
            except TooSlow as error:
                raise InvalidFilter(error.message, details={"field": "filter"}) from error
            except MirrorAway as error:
                self._log.warning_limited(
                    "lab_mirror_away", key="", every_seconds=60, reason=error.message
                )
                continue
            is_of_one_state = stamp is not None and following.stamp(experiment_id) == stamp
            if is_of_one_state:
                self._recent.keep(question, stamp, answer)
            if is_of_one_state or mirror.has_snapshots:
                return answer
        return await self._store.read(read)

    async def _asked_for(
        self,
        tenant: TenantId,
        experiment_id: str,
        run_id: str | None,
        wanted: Filter,
        other_fields: Sequence[str],
    ) -> _Asked:
        """The experiment or the run that is asked for, once the fields asked for are checked."""
        asked = await self._store.read(lambda c: _found(c, tenant, experiment_id, run_id))
        fields = {condition.field for condition in fields_of(wanted)} | set(other_fields)
        _check_scores(asked, fields)
        if any(condition.op is Op.MATCHES for condition in fields_of(wanted)):
            await asyncio.to_thread(check_patterns, wanted)
        return asked


class _Recent:
    """The last answers, each with the state of the mirror that it is about."""

    def __init__(self) -> None:
        self._answers: FIFOCache[str, tuple[Stamp, Any]] = FIFOCache(_KEPT_ANSWERS)

    def find(self, question: str | None, stamp: Stamp | None) -> Any:
        """The answer, if nothing has changed since; else None."""
        kept = None if question is None else self._answers.get(question)
        return kept[1] if kept is not None and kept[0] == stamp else None

    def keep(self, question: str | None, stamp: Stamp | None, answer: object) -> None:
        if question is not None and stamp is not None:
            self._answers[question] = (stamp, answer)


class _Asked(msgspec.Struct, frozen=True):
    """What a question is about: an experiment as it stands, or as one of its runs left it."""

    name: str
    experiment_id: ExperimentId
    run_id: RunId | None
    evaluators: tuple[EvaluatorSpec, ...]
    numbers: Numbers
    """The numbers of the evaluators whose scores are shown; None: all that the rows have.

    Only an experiment whose evaluators changed has scores of others in its rows.
    """
    mirrored: Mirrored
    repetitions: int
    experiment: Experiment

    @property
    def scored_by(self) -> RunId | None:
        """The run that started last with these evaluators."""
        return self.experiment.run_id if self.run_id is None else self.run_id


def _aggregates_from_tables(
    connection: StoreConnection,
    asked: _Asked,
    wanted: Filter,
    field: str | None,
    cluster: str | None,
) -> Aggregates:
    which = (asked.evaluators, asked.repetitions)
    turns = adding_up.Passing(
        connection, asked.experiment_id, asked.run_id, wanted, searcher(), asked.numbers
    )
    if cluster is None and can_be_asked_in_sql(wanted):
        whole = aggregates.aggregates_of(
            connection,
            asked.experiment_id,
            asked.evaluators,
            run_id=asked.run_id,
            wanted=wanted,
            numbers=asked.numbers,
            repetitions=asked.repetitions,
        )
    else:
        whole = adding_up.aggregates_by_hand(turns, *which, cluster)
    if field is None:
        return whole
    return adding_up.with_groups(whole, turns, field, *which, cluster)


def _check_scores(asked: _Asked, fields: set[str]) -> None:
    """Refuse a score that no evaluator gives: it would silently match nothing."""
    known = [evaluator.name for evaluator in asked.evaluators]
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
            f"No evaluator of {asked.name!r} gives a score {name!r}; {hint}",
            details={"field": f"{SCORE}{name}"},
        )


def _found(
    connection: StoreConnection, tenant: TenantId, experiment_id: str, run_id: str | None
) -> _Asked:
    """The experiment, and the run of it that is asked for, if one is."""
    found = experiments.find_experiment(connection, experiment_id, tenant=tenant)
    if found is None:
        raise NotFound(
            f"No experiment has the id {experiment_id!r}; `dragoman experiment list` shows them."
        )
    run = None
    if run_id is not None:
        run = runs.find_run(connection, RunId(run_id))
        if run is None or run.experiment_id != found.experiment_id:
            raise NotFound(f"Experiment {experiment_id} has no run {run_id!r}.")
    spec = found.spec
    of_run = None if run is None else run.evaluators
    return _Asked(
        spec.name,
        found.experiment_id,
        None if run is None else run.run_id,
        spec.evaluators if of_run is None else of_run,
        _numbers(found, run),
        Mirrored(found.experiment_id, spec.evaluators, spec.numbers),
        spec.repetitions,
        found,
    )


def _numbers(experiment: Experiment, run: Run | None) -> Numbers:
    is_changed = run is None and experiment.spec.evaluator_numbers
    return experiment.spec.evaluator_numbers if is_changed else None
