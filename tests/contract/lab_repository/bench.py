"""A repository in a test's hands: plain calls on a real database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from random import Random
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from dragoman.ids import TenantId, new_id
from dragoman.lab.model import (
    DatasetId,
    DatasetVersion,
    EvaluatorSpec,
    Experiment,
    ExperimentId,
    ExperimentSpec,
    Item,
    ItemId,
    ItemKey,
    Run,
    RunId,
    TargetSpec,
    VersionId,
    item_id,
)
from dragoman.lab.repository import (
    JournalEntry,
    Lease,
    OutputEntry,
    ScoreEntry,
    Selection,
    TryEntry,
    TurnEntry,
    archiving,
    datasets,
    dispatching,
    evaluator_record_id,
    experiments,
    items,
    journaling,
    runs,
    starting,
    target_record_id,
)
from dragoman.lab.states import ItemStatus, RunMode, RunStatus
from dragoman.store import Store, StoreConnection

Result = TypeVar("Result")

TENANT = TenantId("acme")
VERSION = VersionId("v-1")
EXPERIMENT = ExperimentId("e-1")
OWNER = "w-1"
LONG_MS = 3_600_000


class Bench:
    """The repository with an experiment of a few items; steps as a scheduler or worker does."""

    def __init__(self, runner: asyncio.Runner, store: Store) -> None:
        self._runner = runner
        self.store = store
        self.random = Random(7)

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        return self._runner.run(coroutine)

    def write(self, work: Callable[[StoreConnection], Result]) -> Result:
        return self._runner.run(self.store.write(work))

    def read(self, work: Callable[[StoreConnection], Result]) -> Result:
        return self._runner.run(self.store.read(work))

    def rows(self, sql: str, **values: Any) -> list[Any]:
        return self.read(lambda c: [tuple(row) for row in c.execute(sa.text(sql), values).all()])

    # --- what there is --------------------------------------------------------------------------

    def with_items(self, count: int, turns: int = 1) -> list[ItemId]:
        """Store an experiment over so many items."""
        made = [
            Item(item_id("0" * 12, n), tuple({"text": f"{n}.{t}"} for t in range(turns)))
            for n in range(count)
        ]
        version = DatasetVersion(VERSION, DatasetId("d-1"), 1, {}, count, turns, 0)
        spec = ExperimentSpec(
            "one", VERSION, TargetSpec("python"), (EvaluatorSpec("exact", "exact"),)
        )

        def insert(connection: StoreConnection) -> None:
            datasets.insert_items(connection, TENANT, VERSION, made)
            datasets.insert_dataset(connection, TENANT, version.dataset_id, "data", 0)
            datasets.insert_version(connection, TENANT, version)
            experiments.insert_experiment(
                connection,
                Experiment(
                    EXPERIMENT, TENANT, spec, RunStatus.PENDING, None, None, 0, None, None, None
                ),
            )

        self.write(insert)
        return [item.item_id for item in made]

    def new_run(self, mode: RunMode = RunMode.SUBMIT, named: tuple[ItemId, ...] = ()) -> Run:
        """Store a run that is being worked on."""
        run = Run(
            run_id=RunId(new_id(self.random, "r")),
            experiment_id=EXPERIMENT,
            tenant=TENANT,
            mode=mode,
            status=RunStatus.PENDING,
            reason=None,
            item_ids=named,
            trial_items=None,
            start_cursor="",
            start_done=False,
            items=0,
            embedded=False,
            created_at_ms=0,
            started_at_ms=None,
            ended_at_ms=None,
        )
        self.write(lambda c: runs.insert_run(c, run))
        self.write(lambda c: runs.change_status(c, run, RunStatus.PROCESSING, at_ms=1))
        return msgspec.structs.replace(run, status=RunStatus.PROCESSING)

    # --- what a scheduler does ------------------------------------------------------------------

    def start(self, run: Run, size: int = 100, **selection: Any) -> int:
        """Make all rows of a run; how many pages it took."""
        wanted = Selection(VERSION, **selection)
        pages = 1
        while not self.write(lambda c: starting.start_page(c, run, wanted, size)):
            pages += 1
        return pages

    def dispatch(self, run: Run, concurrency: int = 100) -> list[ItemId]:
        return items_of(self.write(lambda c: dispatching.dispatch(c, run, concurrency)))

    def archive(self, run: Run) -> list[ItemId]:
        def move(connection: StoreConnection) -> list[ItemId]:
            logged = archiving.logged_items(connection, run, 100)
            archiving.archive(connection, run, logged)
            return [one.item_id for one in logged]

        return self.write(move)

    # --- what a worker does ---------------------------------------------------------------------

    def take(
        self, run: Run, item_ids: list[ItemId], owner: str = OWNER, lease_ms: int = LONG_MS
    ) -> list[Lease]:
        keys = first_of(item_ids)
        return self.write(lambda c: items.take(c, run.run_id, keys, owner, lease_ms))

    def enter(
        self, lease: Lease, *what: OutputEntry | ScoreEntry | TryEntry, owner: str = OWNER
    ) -> list[bool]:
        entries = [JournalEntry(TENANT, lease, one) for one in what]
        return self.write(lambda c: journaling.write_entries(c, owner, entries, 5))

    def finish(self, lease: Lease, status: ItemStatus = ItemStatus.SUCCESS) -> list[bool]:
        """Do and log everything of a one-turn item, in one go."""
        return self.enter(lease, output(lease), score(lease), over(lease, status))


def first_of(item_ids: Iterable[ItemId]) -> list[ItemKey]:
    """The first repetition of each item."""
    return [ItemKey(item_id) for item_id in item_ids]


def items_of(keys: Iterable[ItemKey]) -> list[ItemId]:
    """The items of first repetitions."""
    assert all(key.repetition == 0 for key in keys)
    return [key.item_id for key in keys]


def output(lease: Lease, *, tokens: int | None = None, cost: float | None = None) -> OutputEntry:
    record = target_record_id(lease.lineage, lease.key, 0)
    return OutputEntry(record, 0, '{"output":"x"}', "output", 1.5, tokens, cost)


def score(lease: Lease) -> ScoreEntry:
    return ScoreEntry(evaluator_record_id(lease.lineage, lease.key, 0, 0), 0, "exact", 1.0)


def over(lease: Lease, status: ItemStatus = ItemStatus.SUCCESS, *, last: bool = True) -> TryEntry:
    failed = status is ItemStatus.FAIL
    turn = TurnEntry(
        0,
        status,
        target_record_id(lease.lineage, lease.key, 0),
        "EVALUATOR_ERROR" if failed else None,
        "no" if failed else None,
        ((0, evaluator_record_id(lease.lineage, lease.key, 0, 0)),),
    )
    return TryEntry(lease.try_no, status, last, (turn,))
