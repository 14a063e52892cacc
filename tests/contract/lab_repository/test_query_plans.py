"""Scans never read archived rows: the plans that the databases make for them say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from tests.contract.lab_repository.bench import EXPERIMENT, Bench

from dragoman.lab.model import ItemKey, Run, item_id
from dragoman.lab.repository import (
    archiving,
    dispatching,
    ending,
    experiments,
    giving_up,
    items,
    journal,
    removing,
)
from dragoman.lab.repository.statements import as_keys
from dragoman.lab.repository.tables import item_run_log
from dragoman.store import Connection

INDEX = "ix_item_run_log_run_id_result_state_status_item_id"
ARCHIVED = 5_000

SCANS: dict[str, Callable[[Connection, Run], Any]] = {
    "dispatch": lambda c, run: dispatching.dispatch(c, run, 20),
    "take_back": lambda c, run: dispatching.take_back(c, run, 2),
    "logged": lambda c, run: archiving.logged_items(c, run, 100),
    "terminate": lambda c, run: giving_up.terminate(c, run, "why", 100),
    "offered": lambda c, run: items.offered(c, run.run_id, 100),
    "end": lambda c, run: ending.unfinished(c, run.run_id),
}


class Explained(sa.Executable, sa.ClauseElement):
    """Asks for the plan of a statement instead of its rows."""

    inherit_cache = False

    def __init__(self, statement: sa.Select[Any] | sa.Delete) -> None:
        self.statement = statement


@compiles(Explained)
def _explain(element: Explained, compiler: SQLCompiler, **options: Any) -> str:
    ask = "EXPLAIN QUERY PLAN" if compiler.dialect.name == "sqlite" else "EXPLAIN"
    return f"{ask} {compiler.process(element.statement, **options)}"


class Explaining(Connection):
    """A connection that asks for the plan of every scan of the thin table before it runs it."""

    __slots__ = ("plans",)

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection._connection)
        self.plans: list[str] = []

    def execute(self, statement: Any, parameters: Any = None) -> Any:
        sql = str(statement.compile(dialect=self._connection.dialect))
        if isinstance(statement, sa.Select) and "FROM item_run_log" in sql:
            found = super().execute(Explained(statement), parameters).all()
            self.plans.append("\n".join(str(row[-1]) for row in found))
        return super().execute(statement, parameters)


@pytest.mark.parametrize("scan", sorted(SCANS))
def test_a_scan_finds_its_rows_by_their_state(bench: Bench, scan: str) -> None:
    ids = bench.with_items(30)
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run, 10)
    bench.finish(bench.take(run, ids[:10])[0])
    bench.write(lambda c: _add_archived(c, run))
    bench.write(lambda c: c.execute(sa.text("ANALYZE")).close())

    def explained(connection: Connection) -> list[str]:
        explaining = Explaining(connection)
        SCANS[scan](explaining, run)
        return explaining.plans

    plans = bench.write(explained)

    assert plans
    for plan in plans:
        assert INDEX in plan, plan
        assert "result_state" in plan, plan
        assert "Seq Scan" not in plan, plan


NAMED: dict[str, sa.Update] = {
    "hand out": dispatching._HAND_OUT,
    "take": items._TAKE,
    "renew": items._RENEW,
    "advance": journal._ADVANCE,
    "show turns": archiving._SHOW_TURNS,
    "show items": archiving._SHOW_ITEMS,
    "close": archiving._CLOSE,
}


@pytest.mark.parametrize("name", sorted(NAMED))
def test_named_repetitions_are_found_by_their_key(bench: Bench, name: str) -> None:
    bench.with_items(30)
    run = bench.new_run()
    bench.start(run, repetitions=2)
    bench.write(lambda c: _add_archived(c, run))
    bench.write(lambda c: c.execute(sa.text("ANALYZE")).close())
    condition = NAMED[name].whereclause
    assert condition is not None
    rows = sa.select(item_run_log.c.run_id).where(condition)
    keys = as_keys([ItemKey(item_id("0" * 12, 3), 1)])

    def plan(connection: Connection) -> str:
        asked = {"run": run.run_id, "keys": keys, "experiment": EXPERIMENT}
        if connection.dialect == "postgresql":  # with so few rows it would rather read them all
            connection.execute(sa.text("SET LOCAL enable_seqscan = off")).close()
        found = connection.execute(Explained(rows), asked).all()
        return "\n".join(str(row[-1]) for row in found)

    found = bench.write(plan)
    for table in ("item_run_log", "turn_run_log", "item_result", "turn_result"):
        assert f"Seq Scan on {table}" not in found, found
        assert f"SCAN {table}" not in found, found


def test_deleting_an_experiment_reads_nothing_of_others_while_the_writer_waits(
    bench: Bench,
) -> None:
    ids = bench.with_items(1)
    run = bench.new_run()
    bench.start(run)
    bench.dispatch(run)
    bench.finish(bench.take(run, ids)[0])
    plans: list[str] = []

    class ExplainingDeletes(Connection):
        def execute(self, statement: Any, parameters: Any = None) -> Any:
            if isinstance(statement, sa.Delete):
                found = super().execute(Explained(statement), parameters).all()
                plans.append("\n".join(str(row[-1]) for row in found))
            return super().execute(statement, parameters)

    def delete(connection: Connection) -> None:
        explaining = ExplainingDeletes(connection._connection)
        experiments.delete_experiment(explaining, EXPERIMENT)
        while removing.remove_some(explaining, removing.Kind.EXPERIMENT, EXPERIMENT):
            pass

    bench.write(delete)
    assert len(plans) > 11
    if bench.read(lambda c: c.dialect) == "sqlite":  # others read beside their writers
        assert [plan for plan in plans if "SCAN" in plan] == []


def _add_archived(connection: Connection, run: Run) -> None:
    """Many rows that no scan has any business with."""
    connection.execute(
        sa.insert(item_run_log),
        [
            {
                "run_id": run.run_id,
                "item_id": f"i-{number:020x}",
                "status": "success",
                "result_state": "resulted",
                "try_no": 1,
                "first_try_no": 1,
                "archived_try_no": 1,
                "lineage": "",
                "lease_token": 1,
            }
            for number in range(1_000_000, 1_000_000 + ARCHIVED)
        ],
    )
