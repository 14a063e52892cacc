"""What a database says it will read for a statement, before the statement runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from dragoman.lab.repository import tables
from dragoman.store import StoreConnection, metadata

SMALL = {"lease", "quota", "pending_removal", "mirror_state", "api_key", "worker"}
"""Tables with a row for each thing that is going on now; to read them whole costs nothing."""

BIG = {name for name in metadata.tables if name not in SMALL}
ALIASES = {"newer": "dataset_version", "there": "item_run_log"}

_EXPLAIN = {
    "sqlite": "EXPLAIN QUERY PLAN",
    "postgresql": "EXPLAIN (FORMAT JSON)",
    "mysql": "EXPLAIN",
}
_WHOLE = {"ALL", "index"}
"""MariaDB's words for reading every row, and every entry of an index."""


def plan_of(connection: StoreConnection, statement: Any, parameters: Any = None) -> list[Any]:
    """The rows of the database's plan for a statement, which is not run."""
    inner = connection._connection
    compiled = statement.compile(dialect=inner.dialect)
    expanded = compiled.construct_expanded_state(parameters or {})
    asked = f"{_EXPLAIN[inner.dialect.name]} {expanded.statement}"
    return list(inner.exec_driver_sql(asked, tuple(expanded.positional_parameters)).all())


class Explaining(StoreConnection):
    """A connection that asks for the plan of every statement before it runs it."""

    __slots__ = ("read_whole",)

    def __init__(self, connection: StoreConnection) -> None:
        super().__init__(connection._connection)
        self.read_whole: list[str] = []
        """What would read a whole table, however large it is."""
        if self.dialect == "postgresql":  # with so few rows it would rather read them all
            for way in ("seqscan", "hashjoin", "mergejoin"):
                super().execute(sa.text(f"SET LOCAL enable_{way} = off"))

    def execute(self, statement: Any, parameters: Any = None) -> Any:
        one = parameters[0] if isinstance(parameters, list) else parameters
        if isinstance(statement, sa.Select | sa.Update | sa.Delete) or (
            isinstance(statement, sa.Insert) and statement.select is not None
        ):
            found = plan_of(self, statement, one)
            for table in _read_whole(self.dialect, found):
                sql = str(statement.compile(dialect=self._connection.dialect))
                plan = "\n".join(str(tuple(row)) for row in found)
                self.read_whole.append(f"{table} by {sql}\n{plan}")
        return super().execute(statement, parameters)


def _read_whole(dialect: str, plan: Any) -> list[str]:
    if dialect == "sqlite":
        named = [re.match(r"SCAN (\w+)", row[-1]) for row in plan]
        read = [found.group(1) for found in named if found is not None]
    elif dialect == "mysql":
        read = [row.table for row in plan if row.type in _WHOLE]
    else:
        text = plan[0][0]
        [root] = json.loads(text) if isinstance(text, str) else text
        read = [
            node["Relation Name"]
            for node in _nodes(root["Plan"])
            if "Relation Name" in node
            and node["Node Type"] not in ("Bitmap Heap Scan", "ModifyTable")
            and not ({"Index Cond", "TID Cond"} & node.keys())
        ]
    return [name for name in read if ALIASES.get(name, name) in BIG]


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from _nodes(below)


def fill(connection: StoreConnection, rows: int) -> None:
    """Put rows into every large table that belong to other tenants, experiments and runs."""
    for name in sorted(BIG):
        table = metadata.tables[name]
        connection.execute(
            sa.insert(table),
            [{column.name: value_of(column, n) for column in table.columns} for n in range(rows)],
        )
    analyze(connection, *sorted(metadata.tables))


def analyze(connection: StoreConnection, *names: str) -> None:
    """Have the server look at how many rows there are, as servers do by themselves.

    SQLite does it only when it is asked to, which Dragoman never does.
    """
    ask = {"postgresql": "ANALYZE", "mysql": "ANALYZE TABLE"}.get(connection.dialect)
    for name in names if ask else ():
        connection.execute(sa.text(f"{ask} {name}")).close()


def value_of(column: sa.Column[Any], number: int) -> Any:
    if isinstance(column.type, sa.Boolean):
        return False
    if isinstance(column.type, sa.Integer | sa.Float):
        return number
    if column.name == "status":
        return "success"
    if column.name == "result_state":
        return "resulted"
    if column.name.endswith("_json"):
        return "{}"
    # Ten rows share what they belong to, as the items of a run do.
    belongs = column.name in ("tenant", "experiment_id", "run_id", "version_id", "dataset_id")
    shared = belongs and len(column.table.primary_key) != int(column.primary_key)
    value = f"other-{number // 10 if shared else number:06}"
    return value[-(getattr(column.type, "length", None) or len(value)) :]


assert tables.item_run_log.name in BIG
