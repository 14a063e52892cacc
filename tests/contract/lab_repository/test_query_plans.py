"""No query of a timer or a user reads a whole table: the plans of the databases say so."""

from __future__ import annotations

import inspect
import pkgutil
import re
import sys
from collections.abc import Callable
from importlib import import_module
from types import FrameType
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from tests.contract.lab_repository.bench import EXPERIMENT, TENANT, VERSION, Bench, first_of
from tests.contract.lab_repository.plans import Explaining, analyze, fill, plan_of, value_of

from dragoman.lab import repository
from dragoman.lab.budgets import Quota
from dragoman.lab.filters import EVERYTHING, Condition, Op
from dragoman.lab.model import (
    ContentId,
    DatasetId,
    EvaluatorSpec,
    ExperimentSpec,
    ItemId,
    ItemKey,
    Run,
    TargetSpec,
)
from dragoman.lab.repository import (
    Claim,
    DueStart,
    Place,
    PlannedStart,
    Selection,
    Sorting,
    Working,
    aggregates,
    annotating,
    appending,
    archiving,
    datasets,
    dispatching,
    ending,
    experiments,
    expiring,
    giving_up,
    hours,
    items,
    journaling,
    leases,
    mirroring,
    pacing,
    pairing,
    pruning,
    quotas,
    removing,
    response_cache,
    result_rows,
    runs,
    showing,
    spending,
    starting,
    tries,
    workers,
)
from dragoman.lab.repository.spans import Span
from dragoman.lab.repository.statements import as_keys
from dragoman.lab.repository.tables import (
    item_result,
    item_run_log,
    turn_result,
    turn_run_log,
)
from dragoman.lab.states import ItemStatus, RunStatus
from dragoman.store import StoreConnection, metadata

OTHERS = 3_000
ITEMS = 30

Call = Callable[[StoreConnection, Run, list[ItemId]], Any]

PLANNED = ExperimentSpec("planned", None, TargetSpec("recorded", {}))

REPORTED = Working("w-2", "host", 1, "0", False, "", False, 1, 0, 0.0, (), 1)

ON_A_TIMER: dict[str, Call] = {
    "orphans": lambda c, run, ids: runs.orphans(c, 100),
    "runs by status": lambda c, run, ids: runs.count_active_by_status(c),
    "working runs": lambda c, run, ids: runs.working_runs(c),
    "statuses": lambda c, run, ids: runs.statuses_of(c, [run.run_id]),
    "a run": lambda c, run, ids: runs.find_run(c, run.run_id, lock=True),
    "start": lambda c, run, ids: starting.start_page(c, run, Selection(VERSION), 10),
    "retry": lambda c, run, ids: starting.add_rows(
        c, run, Selection(VERSION, unfinished_only=True), Span("", ids[-1])
    ),
    "dispatch": lambda c, run, ids: dispatching.dispatch(c, run, 20),
    "take back": lambda c, run, ids: dispatching.take_back(c, run, 2),
    "waiting": lambda c, run, ids: dispatching.is_waiting(
        c, msgspec.structs.replace(run, start_done=True)
    ),
    "offered": lambda c, run, ids: items.offered(c, run.run_id, 100),
    "untaken": lambda c, run, ids: items.untaken(c, run.run_id, first_of(ids[10:12])),
    "take": lambda c, run, ids: items.take(c, run.run_id, first_of(ids[10:12]), "w-2", 1000),
    "take any": lambda c, run, ids: items.take_any(c, run.run_id, 2, "w-2", 1000),
    "take next": lambda c, run, ids: items.take_next(c, run.run_id, "w-2", 1000, places=1, ahead=2),
    "worked on": lambda c, run, ids: dispatching.worked_on(c, run),
    "budget": lambda c, run, ids: spending.is_without_budget(c, run.run_id, Quota()),
    "report": lambda c, run, ids: workers.report(c, REPORTED),
    "pace": lambda c, run, ids: pacing.find(c, ["t-1"]),
    "settle": lambda c, run, ids: pacing.settle(c, "t-1", [Claim("w-2", 1, 0)], 1000),
    "leave": lambda c, run, ids: pacing.leave(c, ["w-2"]),
    "read items": lambda c, run, ids: items.read_items(c, ids[:3]),
    "show worked on": lambda c, run, ids: showing.show_worked_on(c, run, first_of(ids[:3])),
    "show status": lambda c, run, ids: showing.show_status(
        c, run, first_of(ids[20:22]), ItemStatus.QUEUEING
    ),
    "archive": lambda c, run, ids: archiving.archive(c, run, archiving.logged_items(c, run, 100)),
    "unfinished": lambda c, run, ids: ending.unfinished(c, run.run_id),
    "end": lambda c, run, ids: ending.end(c, run.run_id, 9),
    "keep counts": lambda c, run, ids: ending.keep_counts(c, run.run_id),
    "change status": lambda c, run, ids: runs.change_status(c, run, RunStatus.PROCESSING, at_ms=9),
    "terminate": lambda c, run, ids: giving_up.terminate(c, run, "why", 100),
    "due starts": lambda c, run, ids: appending.due_starts(c, 5, 10),
    "planned starts": lambda c, run, ids: appending.planned_starts(
        c, OTHERS, PlannedStart(EXPERIMENT, TENANT, OTHERS, PLANNED), 10
    ),
    "started times": lambda c, run, ids: appending.started_times(c, EXPERIMENT, 5),
    "pass time": lambda c, run, ids: appending.pass_time(c, DueStart(EXPERIMENT, TENANT, 5), 6),
    "add items": lambda c, run, ids: appending.add_to_run(c, run, Selection(None), ids[:2]),
    "added items": lambda c, run, ids: appending.known_own_items(c, EXPERIMENT, ids[:2]),
    "any added item": lambda c, run, ids: appending.has_own_items(c, EXPERIMENT),
    "waits to be archived": lambda c, run, ids: archiving.waiting_items(c, run, 10),
    "how many are worked on": lambda c, run, ids: dispatching.count_worked_on(c, run),
    "tenants in the cache": lambda c, run, ids: response_cache.tenants_with_answers(c),
    "removals": lambda c, run, ids: removing.pending(c),
    "surplus answers": lambda c, run, ids: response_cache.newest_surplus_ms(c, TENANT, 10),
    "tenants with answers": lambda c, run, ids: response_cache.next_tenant_with_answers(c, "x"),
    "old answers": lambda c, run, ids: response_cache.remove_answers(c, TENANT, 5),
    "imports": lambda c, run, ids: leases.held_under(c, removing.IMPORTS),
    "old experiments": lambda c, run, ids: pruning.ended_before(c, 5, None, 10),
    "too many experiments": lambda c, run, ids: pruning.beyond_newest(c, TENANT, 1, 10),
    "tenants with experiments": lambda c, run, ids: pruning.next_tenant(c, "other-0002"),
    "changes": lambda c, run, ids: mirroring.is_behind(c, EXPERIMENT),
    "cross out": lambda c, run, ids: c.execute(
        mirroring._CROSS_OUT, {"experiment": EXPERIMENT, "change": 1, "item_ids": '["a"]'}
    ),
    "what never ends": lambda c, run, ids: expiring.never_ending(c),
    "what is old of it": lambda c, run, ids: [
        (
            expiring.takes_items(c, found),
            expiring.old_runs(c, found, 5),
            expiring.old_items(c, found, 5, "", 10),
        )
        for found in [experiments.find_experiment(c, EXPERIMENT)]
        if found is not None
    ],
    "remove old items": lambda c, run, ids: expiring.remove_own_items(
        c, EXPERIMENT, run.run_id, ids[6:8], 1 << 50
    ),
    "lag of a mirror": lambda c, run, ids: mirroring.count_changes(c, 10),
    "lag without a mirror": lambda c, run, ids: mirroring.count_first_items(c, 10),
    "what a mirror lacks": lambda c, run, ids: mirroring.changes(c, 10),
    "copy": lambda c, run, ids: mirroring.turns_of_items(c, EXPERIMENT, ids[:3]),
    "copy next": lambda c, run, ids: (
        mirroring.next_experiment(c, "e-0"),
        mirroring.next_items(c, EXPERIMENT, "", 10),
    ),
}

FIRST_ROWS = {"lag of a mirror", "lag without a mirror", "what a mirror lacks"}
"""What reads a table from its beginning, up to so many rows."""

BY_A_USER: dict[str, Call] = {
    "datasets": lambda c, run, ids: datasets.list_datasets(c, TENANT),
    "dataset": lambda c, run, ids: datasets.find_dataset(c, TENANT, name="data"),
    "version": lambda c, run, ids: datasets.find_version(c, TENANT, VERSION),
    "versions": lambda c, run, ids: datasets.versions_of(c, DatasetId("d-1")),
    "same content": lambda c, run, ids: datasets.find_content(c, DatasetId("d-1"), "x"),
    "items": lambda c, run, ids: datasets.items_of(c, VERSION),
    "turns": lambda c, run, ids: datasets.turns_in(c, VERSION),
    "contents": lambda c, run, ids: datasets.contents_of(c, VERSION, most=10),
    "known items": lambda c, run, ids: datasets.known_items(c, VERSION, ids[:3]),
    "audio": lambda c, run, ids: datasets.used_audio(c, ["a"]),
    "audio of versions": lambda c, run, ids: datasets.audio_of_versions(c, [VERSION]),
    "use of a version": lambda c, run, ids: datasets.using_experiment(c, [VERSION]),
    "experiments": lambda c, run, ids: experiments.list_experiments(c, TENANT, before=(10, "e-2")),
    "experiment": lambda c, run, ids: experiments.find_by_name(c, TENANT, "one"),
    "namesakes": lambda c, run, ids: pairing.finished_namesakes(c, TENANT, "one", (9, "e")),
    "runs": lambda c, run, ids: runs.runs_of(c, EXPERIMENT),
    "workers": lambda c, run, ids: workers.seen(c),
    "granted": lambda c, run, ids: pacing.granted(c, "t-1"),
    "running": lambda c, run, ids: runs.active_runs(c, TENANT),
    "spent": lambda c, run, ids: spending.spent_by_tenant(c, TENANT),
    "spent on an experiment": lambda c, run, ids: spending.spent_by_experiment(c, EXPERIMENT),
    "scores by hour": lambda c, run, ids: hours.scores_by_hour(
        c, EXPERIMENT, [EvaluatorSpec("exact", "exact")], None, 5
    ),
    "stats": lambda c, run, ids: ending.run_stats(c, run),
    "totals": lambda c, run, ids: ending.experiment_totals(c, EXPERIMENT),
    "rows": lambda c, run, ids: result_rows.result_page(
        c, EXPERIMENT, None, EVERYTHING, [], None, 10
    ),
    "rows of a run": lambda c, run, ids: result_rows.result_page(
        c, EXPERIMENT, run.run_id, EVERYTHING, [], None, 10
    ),
    "rows by score": lambda c, run, ids: result_rows.result_page(
        c,
        EXPERIMENT,
        None,
        Condition("score.exact", Op.AT_LEAST, 0.5),
        [Sorting("score.exact")],
        None,
        10,
    ),
    "how many rows pass": lambda c, run, ids: result_rows.count_rows(
        c, EXPERIMENT, None, Condition("score.exact", Op.AT_LEAST, 0.5)
    ),
    "how many rows of a run": lambda c, run, ids: result_rows.count_rows(
        c, EXPERIMENT, run.run_id, EVERYTHING
    ),
    "rows of items": lambda c, run, ids: result_rows.rows_of_items(
        c, EXPERIMENT, first_of(ids[:3])
    ),
    "every turn": lambda c, run, ids: list(result_rows.every_turn(c, EXPERIMENT, None)),
    "aggregates": lambda c, run, ids: aggregates.aggregates_of(
        c, EXPERIMENT, [EvaluatorSpec("exact", "exact")]
    ),
    "annotations": lambda c, run, ids: annotating.every(c, EXPERIMENT, after=None, most=10),
    "turns to judge": lambda c, run, ids: annotating.turns_of_items(
        c, EXPERIMENT, first_of(ids[:3])
    ),
    "remove annotation": lambda c, run, ids: annotating.remove(c, EXPERIMENT, "a"),
    "number of annotations": lambda c, run, ids: annotating.count(c, EXPERIMENT),
    "names of annotations": lambda c, run, ids: annotating.names_of(c, EXPERIMENT),
    "annotations of items": lambda c, run, ids: annotating.of_items(c, EXPERIMENT, ids[:3]),
    "judged items": lambda c, run, ids: annotating.annotated_items(
        c, EXPERIMENT, after="", most=10
    ),
    "calibrations": lambda c, run, ids: annotating.calibrations(c, TENANT, ["f"]),
    "store calibrations": lambda c, run, ids: annotating.store_calibrations(
        c, TENANT, EXPERIMENT, ["f"], []
    ),
    "waiting own items": lambda c, run, ids: appending.has_waiting_items(c, EXPERIMENT),
    "next run": lambda c, run, ids: appending.set_next_run(c, EXPERIMENT, None),
    "reason": lambda c, run, ids: appending.set_reason(c, EXPERIMENT, "why"),
    "media type": lambda c, run, ids: datasets.audio_media_type(c, DatasetId("d-1"), "a"),
    "lock dataset": lambda c, run, ids: datasets.lock_dataset(c, DatasetId("d-1")),
    "lock version": lambda c, run, ids: datasets.lock_version(c, VERSION),
    "lock versions": lambda c, run, ids: datasets.lock_versions(c, DatasetId("d-1")),
    "next version": lambda c, run, ids: datasets.next_version(c, DatasetId("d-1")),
    "schema": lambda c, run, ids: datasets.schema_of_version(c, VERSION),
    "one item": lambda c, run, ids: datasets.item_at(c, VERSION, 3),
    "rows of contents": lambda c, run, ids: datasets.rows_of_contents(c, VERSION, ["a"]),
    "items by content": lambda c, run, ids: datasets.items_by_content(c, VERSION, [ContentId("a")]),
    "delete dataset": lambda c, run, ids: datasets.delete_dataset(c, DatasetId("none")),
    "kept scores": lambda c, run, ids: ending.kept_scores(c, [run.run_id]),
    "change": lambda c, run, ids: experiments.update_spec(c, EXPERIMENT, PLANNED),
    "name a target": lambda c, run, ids: pacing.note(c, "t-1", TENANT, "t"),
    "set a pace": lambda c, run, ids: pacing.set_most(c, "t-1", TENANT, "t", 3),
    "limits": lambda c, run, ids: quotas.quotas_of_tenants(c),
    "limits of a tenant": lambda c, run, ids: quotas.find_quota(c, TENANT),
    "set limits": lambda c, run, ids: quotas.set_quota(c, TENANT, Quota()),
    "cached answer": lambda c, run, ids: response_cache.find_answer(c, TENANT, "k"),
    "fingerprints": lambda c, run, ids: runs.fingerprints_of(c, run.run_id),
    "let finish": lambda c, run, ids: runs.set_let_finish(c, run.run_id, let_finish=False),
    "tries": lambda c, run, ids: [
        (tries.find_key(c, found, ids[0], 0), tries.tries_of(c, found, ItemKey(ids[0], 0)))
        for found in [experiments.find_experiment(c, EXPERIMENT)]
        if found is not None
    ],
    "texts": lambda c, run, ids: pairing.said_in(c, EXPERIMENT, None, ids[:3]),
    "texts of a run": lambda c, run, ids: pairing.said_in(c, EXPERIMENT, run.run_id, ids[:3]),
    "rows at places": lambda c, run, ids: result_rows.rows_at(
        c, EXPERIMENT, [Place(one, 0) for one in ids[:3]]
    ),
    "join": lambda c, run, ids: ending.join(
        c, run.run_id, Selection(VERSION, named=tuple(ids[:2]))
    ),
}


def _prepared(bench: Bench) -> tuple[Run, list[ItemId]]:
    ids = bench.with_items(ITEMS)
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run, 15)
    for lease in bench.take(run, ids[:10]):
        bench.finish(lease)
    bench.archive(run)
    for lease in bench.take(run, ids[10:12]):
        bench.finish(lease)
    bench.write(lambda c: fill(c, OTHERS))
    return run, ids


def test_no_query_of_a_timer_or_a_user_reads_a_whole_table(bench: Bench) -> None:
    run, ids = _prepared(bench)

    def explained(connection: StoreConnection) -> dict[str, list[str]]:
        found = {}
        for name, call in (ON_A_TIMER | BY_A_USER).items():
            explaining = Explaining(connection)
            call(explaining, run, ids)
            found[name] = explaining.read_whole
        return found

    wholly = bench.write(explained)
    for name in FIRST_ROWS:
        for one in wholly.pop(name):
            assert "LIMIT" in one, one
            assert not re.search("TEMP B-TREE|filesort|'Sort'", one), one
    assert not any(wholly.values()), "\n\n".join(
        f"{name}: {one}" for name, reads in wholly.items() for one in reads
    )


_INSERTS = "It only inserts rows that are given."
_NAMED_ROWS = "test_rows_that_are_named_are_found_one_by_one has its statements."
_TAKEN = "It finds what the few items that a worker took have, by their keys."
_LEASES = "The table of leases has a row for each thing that is going on."
_OF_ONE = "It reads what one experiment has, by the statements of rows and aggregates above."
_DELETES_RUN = "It changes rows of one run, by their keys."
_DELETES = "test_deleting_an_experiment_reads_nothing_of_others goes through it."

ELSEWHERE: dict[str, str] = {
    "annotating.put": _INSERTS,
    "appending.insert_own_items": _INSERTS,
    "archiving.give_up_archiving": "It changes one item, by its key.",
    "by_hand.columns_of": _OF_ONE,
    "by_hand.places_of": _OF_ONE,
    "by_hand.result_page": _OF_ONE,
    "datasets.insert_audio": _INSERTS,
    "datasets.insert_contents": _INSERTS,
    "datasets.insert_dataset": _INSERTS,
    "datasets.insert_items": _INSERTS,
    "datasets.insert_version": _INSERTS,
    "ending.keep_aggregates": _INSERTS,
    "experiments.delete_experiment": _DELETES,
    "experiments.insert_experiment": _INSERTS,
    "expiring.drop_run": _DELETES_RUN,
    "items.give_back": _NAMED_ROWS,
    "items.renew": _NAMED_ROWS,
    "journaling.write_entries": _NAMED_ROWS,
    **{
        f"leases.{name}": _LEASES
        for name in ("find", "forget", "holder_of", "release", "renew", "require", "seize", "take")
    },
    "mirroring.begin_following": "A new mirror forgets what the last one lacked, once.",
    "mirroring.count_items": "Asked once, before a new mirror copies every item.",
    "mirroring.cross_out": "Its one statement is looked at above.",
    "mirroring.state": "Its table has one row.",
    "mirroring.stop_following": "A lab without a mirror forgets what the last one lacked, once.",
    "pairing.page_taken": _OF_ONE,
    "pairing.units_that_pass": _OF_ONE,
    "pruning.delete_if_over": _DELETES,
    "removing.begin": _INSERTS,
    "removing.discard_some": _DELETES,
    "removing.remove_some": _DELETES,
    "response_cache.keep_answer": _INSERTS,
    "reusing.leftovers": _TAKEN,
    "reusing.with_failures": _TAKEN,
    "runs.insert_run": _INSERTS,
    "usage.keep_usage_of_deleted": _DELETES,
    "usage.keep_usage_of_run": _DELETES_RUN,
    "workers.forget": "The table of workers has a row for each.",
}
"""Functions of the repository that no call above reaches, each with the reason."""


def test_the_plan_of_every_function_of_the_repository_is_looked_at(bench: Bench) -> None:
    """Or it is named with the reason why that is not needed: a new query is not forgotten."""
    run, ids = _prepared(bench)
    functions = {
        function.__code__: f"{module.name}.{name}"
        for module in pkgutil.iter_modules(repository.__path__)
        for name, function in vars(import_module(f"{repository.__name__}.{module.name}")).items()
        if inspect.isfunction(function)
        and not name.startswith("_")
        and function.__module__ == f"{repository.__name__}.{module.name}"
        and "connection" in inspect.signature(function).parameters
    }
    reached: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code in functions:
            reached.add(functions[frame.f_code])

    def call_all(connection: StoreConnection) -> None:
        sys.setprofile(note)
        try:
            for call in (ON_A_TIMER | BY_A_USER).values():
                call(connection, run, ids)
        finally:
            sys.setprofile(None)

    bench.write(call_all)
    assert set(functions.values()) - reached == set(ELSEWHERE)


def test_deleting_an_experiment_reads_nothing_of_others(bench: Bench) -> None:
    run, _ = _prepared(bench)

    def delete(connection: StoreConnection) -> tuple[int, list[str]]:
        explaining = Explaining(connection)
        experiments.delete_experiment(explaining, EXPERIMENT)
        steps = 0
        while removing.remove_some(explaining, removing.RemovedKind.EXPERIMENT, EXPERIMENT):
            steps += 1
        return steps, explaining.read_whole

    steps, wholly = bench.write(delete)
    assert steps > 5
    assert wholly == []
    left = bench.rows("SELECT count(*) FROM item_run_log WHERE run_id = :run", run=run.run_id)
    assert left == [(0,)]


SCANS: dict[str, Call] = {
    name: ON_A_TIMER[name]
    for name in (
        *("dispatch", "take back", "archive", "terminate", "offered", "unfinished"),
        *("take next", "worked on", "waiting"),
    )
}
INDEX = "ix_item_run_log_run_id_result_state_status_item_id"
ARCHIVED = 5_000


@pytest.fixture(scope="module")
def with_archived(lasting_bench: Bench) -> tuple[Bench, Run, list[ItemId]]:
    """A run with items in every state, and many more that are archived."""
    bench = lasting_bench
    ids = bench.with_items(ITEMS)
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run, 10)
    bench.finish(bench.take(run, ids[:10])[0])
    bench.write(lambda c: _add_archived(c, run))
    return bench, run, ids


@pytest.mark.parametrize("scan", sorted(SCANS))
def test_a_scan_of_a_run_leaves_out_what_is_archived(
    with_archived: tuple[Bench, Run, list[ItemId]], scan: str
) -> None:
    bench, run, ids = with_archived
    plans: list[str] = []

    class Noting(StoreConnection):
        def execute(self, statement: Any, parameters: Any = None) -> Any:
            sql = str(statement.compile(dialect=self._connection.dialect))
            keyed = "JSON" in sql.upper()  # these are found one by one
            if isinstance(statement, sa.Select) and "FROM item_run_log" in sql and not keyed:
                found = plan_of(self, statement, parameters)
                plans.append("\n".join(str(tuple(row)) for row in found))
            return super().execute(statement, parameters)

    def look(connection: StoreConnection) -> None:
        SCANS[scan](Noting(connection._connection), run, ids)
        raise _Undone

    with pytest.raises(_Undone):
        bench.write(look)
    assert plans
    for plan in plans:
        assert INDEX in plan, plan
        if "Node Type" in plan or "SEARCH" in plan:
            assert "result_state" in plan, plan


class _Undone(Exception):
    """Raised by a write that is to change nothing."""


NAMED = {
    "hand out": dispatching._HAND_OUT,
    "take": items._TAKE,
    "expired": dispatching._EXPIRED,
    "held": items._HELD,
    "renew": items._RENEW,
    "set aside": items._SET_ASIDE,
    "begin": items._BEGIN,
    "held by a worker": journaling._HELD,
    "take a place": journaling._BEGIN,
    "show turns": archiving._SHOW_TURNS,
    "show items": archiving._SHOW_ITEMS,
    "close": archiving._CLOSE,
}


@pytest.mark.parametrize("name", sorted(NAMED))
def test_rows_that_are_named_are_found_one_by_one(
    with_archived: tuple[Bench, Run, list[ItemId]], name: str
) -> None:
    """Not by reading all rows of their run, of which there may be millions."""
    bench, run, _ = with_archived
    keys = as_keys([ItemKey(ItemId(f"i-{1_000_003:020x}"), 0)])
    asked = {"run": run.run_id, "keys": keys, "experiment": EXPERIMENT}
    values: dict[str, dict[str, Any]] = {
        "take": {"owner": "w-1", "lease_ms": 5},
        "expired": {"gone": "[]"},
        "held": {"owner": "w-1"},
        "renew": {"lease_ms": 5},
        "set aside": {"owner": "w-1", "lease_ms": 5},
        "begin": {"owner": "w-1", "lease_ms": 5},
        "held by a worker": {"owner": "w-1"},
    }
    given = values.get(name, {})

    def look(connection: StoreConnection) -> list[Any]:
        if connection.dialect == "postgresql":
            connection.execute(sa.text("SET LOCAL enable_seqscan = off")).close()
        return plan_of(connection, NAMED[name], asked | given)

    plan = bench.write(look)
    kind = bench.read(lambda c: c.dialect)
    if kind == "mysql":
        # Each table but the list itself by its key, one row for each entry of the list.
        reads = [row for row in plan if row.table in metadata.tables]
        assert reads, plan
        assert {row.type for row in reads} <= {"eq_ref", "ref"}, plan
        assert all(row.ref != "const" for row in reads), plan
    else:
        told = "\n".join(str(tuple(row)) for row in plan)
        assert "item_id" in told, told


def _add_archived(connection: StoreConnection, run: Run) -> None:
    """Many rows that no scan has any business with."""
    for table in (item_run_log, item_result, turn_run_log, turn_result):
        known = {"run_id": run.run_id, "experiment_id": EXPERIMENT, "tenant": TENANT}
        rows = [
            {
                **{column.name: value_of(column, number) for column in table.columns},
                **{name: value for name, value in known.items() if name in table.c},
                **{name: 0 for name in ("turn_no", "repetition") if name in table.c},
                **{name: 1 for name in ("try_no",) if name in table.c},
                "item_id": f"i-{number:020x}",
            }
            for number in range(1_000_000, 1_000_000 + ARCHIVED)
        ]
        connection.execute(sa.insert(table), rows)
        analyze(connection, table.name)
