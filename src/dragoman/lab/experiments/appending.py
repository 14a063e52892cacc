"""Items that come while an experiment runs, and the end of one that waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec

from dragoman.errors import ExperimentNotRunning, InvalidMessage, SchemaMismatch
from dragoman.ids import TenantId
from dragoman.lab.audio import audio_columns
from dragoman.lab.datasets import MAX_COLUMNS, RowSchema
from dragoman.lab.experiments.asking import check_uses
from dragoman.lab.experiments.starting import Overtaken, Started, no_experiment
from dragoman.lab.model import (
    DatasetVersion,
    Experiment,
    ExperimentId,
    ExperimentSpec,
    Item,
    Run,
    RunId,
    Turn,
    item_id,
)
from dragoman.lab.plugins import Context
from dragoman.lab.repository import Selection, appending, experiments, runs
from dragoman.lab.states import ACTIVE, WORKING, RunMode, RunStatus
from dragoman.store import StoreConnection, Work

MAX_INVOKED_ITEMS = 1_000
MAX_INVOKED_TURNS = 1_000
"""Maximum items of one call, and turns of one item."""

_TIME_DIGITS = 12
_RANDOM_BITS = 22

Turns = Sequence[Turn]


class LastRun(msgspec.Struct, frozen=True):
    """The last run of an experiment with cron: how it is started, or why it cannot be."""

    start: Work[Started] | None
    why_not: str = ""


def check_items(
    items: Sequence[Turns], spec: ExperimentSpec, version: DatasetVersion | None, context: Context
) -> None:
    """Refuse items that the experiment cannot use, each with its place in the list."""
    if not 1 <= len(items) <= MAX_INVOKED_ITEMS:
        raise InvalidMessage(
            f"The call has {len(items):,} items; it must have from 1 to {MAX_INVOKED_ITEMS:,}.",
            details={"field": "items"},
        )
    schema = None if version is None else RowSchema(version.schema)
    if version is not None and audio_columns(version.schema):
        # A row names audio by its checksum, and the file may be another tenant's.
        raise InvalidMessage(
            "The experiment's dataset has audio, and items with audio cannot be added to a run; "
            "import them as a version of the dataset.",
            details={"field": "items"},
        )
    known: set[frozenset[str]] = set()
    for number, turns in enumerate(items):
        if not 1 <= len(turns) <= MAX_INVOKED_TURNS:
            raise InvalidMessage(
                f"items[{number}] has {len(turns):,} turns; it must have from 1 to "
                f"{MAX_INVOKED_TURNS:,}.",
                details={"field": f"items[{number}].turns"},
            )
        for turn_no, turn in enumerate(turns):
            where = f"items[{number}].turns[{turn_no}]"
            _check_turn(turn, where, schema)
            columns = frozenset(turn)
            if columns not in known:
                _check_columns(spec, columns, context, where)
                known.add(columns)


def _check_turn(turn: Turn, where: str, schema: RowSchema | None) -> None:
    if not 1 <= len(turn) <= MAX_COLUMNS:
        raise InvalidMessage(
            f"{where} has {len(turn):,} columns; it must have from 1 to {MAX_COLUMNS:,}.",
            details={"field": where},
        )
    for column, message in () if schema is None else schema.problems(turn):
        named = f"{where}.{column}" if column else where
        raise SchemaMismatch(
            f"{named} does not fit the dataset's schema: {message}", details={"field": named}
        )


def _check_columns(
    spec: ExperimentSpec, columns: frozenset[str], context: Context, where: str
) -> None:
    try:
        check_uses(spec, sorted(columns), context)
    except SchemaMismatch as error:
        raise SchemaMismatch(f"{where}: {error.message}", details={"field": where}) from None


def new_items(items: Sequence[Turns], random: Random, now_ms: int) -> list[Item]:
    """The items with ids of their own, which sort as they came."""
    batch = f"{now_ms:0{_TIME_DIGITS}x}"[-_TIME_DIGITS:]
    first = random.getrandbits(_RANDOM_BITS) * MAX_INVOKED_ITEMS
    return [Item(item_id(batch, first + n), tuple(turns)) for n, turns in enumerate(items)]


def add_items(
    connection: StoreConnection, tenant: TenantId, experiment_id: str, items: Sequence[Item]
) -> RunId | None:
    """Store items of an experiment and queue them in its append run; that run.

    None between two runs of an experiment with cron: the next run takes them.
    """
    known, run = latest_run(connection, tenant, experiment_id)
    if run is not None and run.status in ACTIVE:
        if run.mode is not RunMode.APPEND or run.status in (
            RunStatus.DRAINING,
            RunStatus.TERMINATING,
        ):
            what = "" if run.mode is RunMode.APPEND else f" in mode {run.mode}"
            # One that starts by itself takes items again as soon as this run has ended.
            then = "start it in mode append" if known.next_run_at_ms is None else "add them"
            raise ExperimentNotRunning(
                f"Experiment {experiment_id} is {run.status}{what}, so it takes no more items; "
                f"{then} when it has ended."
            )
    elif known.next_run_at_ms is None:
        raise ExperimentNotRunning(
            f"Experiment {experiment_id} does not wait for items; start it in mode append."
        )
    appending.insert_own_items(connection, tenant, known.experiment_id, items)
    if run is None or run.status not in ACTIVE:
        return None
    spec = known.spec
    wanted = Selection(spec.dataset_version_id, repetitions=spec.repetitions)
    appending.add_to_run(connection, run, wanted, [item.item_id for item in items])
    return run.run_id


def finish(
    connection: StoreConnection,
    tenant: TenantId,
    experiment_id: str,
    at_ms: int,
    last: LastRun | None = None,
) -> Started:
    """Take no more items and start no more by itself; the run ends when its items are done.

    Between two runs of an experiment with cron, items that wait for the next run get a last one.
    Raises `Overtaken` when items wait that the caller did not know of.
    """
    known, run = latest_run(connection, tenant, experiment_id)
    is_open = run is not None and run.mode is RunMode.APPEND and run.status in ACTIVE
    if run is None or not (is_open or known.next_run_at_ms is not None):
        raise ExperimentNotRunning(
            f"Experiment {experiment_id} waits for no items; there is nothing to finish."
        )
    if run.status is RunStatus.TERMINATING:
        raise ExperimentNotRunning(f"Experiment {experiment_id} is being stopped.")
    if run.status in ACTIVE:
        appending.set_next_run(connection, known.experiment_id, None)
        _close(connection, run, at_ms)
        return Started(run.run_id, joined=True)
    if not appending.has_waiting_items(connection, known.experiment_id):
        appending.set_next_run(connection, known.experiment_id, None)
        return Started(run.run_id, joined=True)
    if last is None:
        raise Overtaken
    if last.start is None:
        appending.set_next_run(connection, known.experiment_id, None)
        appending.set_reason(connection, known.experiment_id, last.why_not)
        return Started(run.run_id, joined=True)
    started = last.start(connection)
    made = runs.find_run(connection, started.run_id)
    assert made is not None
    _close(connection, made, at_ms)
    return started


def _close(connection: StoreConnection, run: Run, at_ms: int) -> None:
    """Have a run end when its items are done."""
    if run.status is RunStatus.PENDING:
        runs.change_status(connection, run, RunStatus.PROCESSING, at_ms=at_ms)
    if run.status in WORKING | {RunStatus.PENDING}:
        runs.change_status(connection, run, RunStatus.DRAINING, at_ms=at_ms)


def latest_run(
    connection: StoreConnection, tenant: TenantId, experiment_id: str
) -> tuple[Experiment, Run | None]:
    """The experiment with its latest run; neither changes until this is over.

    The run's row first, then the experiment's: the end of a run locks them in this order.
    """
    known = experiments.find_experiment(connection, experiment_id, tenant=tenant)
    if known is None:
        raise no_experiment(experiment_id)
    run = None if known.run_id is None else runs.find_run(connection, known.run_id, lock=True)
    locked = experiments.find_experiment(connection, ExperimentId(experiment_id), lock=True)
    if locked is None or locked.run_id != known.run_id:
        raise Overtaken
    return locked, run
