"""The few pieces of SQL that databases write differently."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from dragoman.lab.model import ItemKey
from dragoman.store import StoreConnection, exact_collation

_Insert = TypeVar("_Insert", bound=sa.Insert)

_LONGEST_LISTED = 255
"""A longer text in a list is equal to no id or name."""


class now_ms(sa.sql.functions.FunctionElement[int]):  # noqa: N801
    """The database's own time in milliseconds since 1970: leases are shared between machines."""

    type = sa.BigInteger()
    inherit_cache = True


@compiles(now_ms, "sqlite")
def _now_on_sqlite(element: now_ms, compiler: SQLCompiler, **options: Any) -> str:
    return "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)"


@compiles(now_ms, "postgresql")
def _now_on_postgresql(element: now_ms, compiler: SQLCompiler, **options: Any) -> str:
    # Not now(), which is the time at which the transaction began.
    return "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"


@compiles(now_ms, "mysql")
def _now_on_mysql(element: now_ms, compiler: SQLCompiler, **options: Any) -> str:
    # In UTC, so that no time zone comes into it.
    return "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000)"


def read_now_ms(connection: StoreConnection) -> int:
    """The database's own time, by which processes on several machines measure a run."""
    return int(connection.execute(sa.select(now_ms())).scalar_one())


class _each_of(sa.sql.functions.FunctionElement[str]):  # noqa: N801
    """The elements of a JSON list of texts, as rows."""

    inherit_cache = True


@compiles(_each_of, "sqlite")
def _each_on_sqlite(element: _each_of, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


@compiles(_each_of, "postgresql")
def _each_on_postgresql(element: _each_of, compiler: SQLCompiler, **options: Any) -> str:
    listed = compiler.process(element.clauses, **options)
    return f"json_array_elements_text(CAST({listed} AS JSON))"


@compiles(_each_of, "mysql")
def _each_on_mysql(element: _each_of, compiler: SQLCompiler, **options: Any) -> str:
    listed = compiler.process(element.clauses, **options)
    value = (
        f"value VARCHAR({_LONGEST_LISTED}) CHARACTER SET utf8mb4 "
        f"COLLATE {exact_collation(compiler.dialect)} PATH '$'"
    )
    return f"JSON_TABLE({listed}, '$[*]' COLUMNS ({value}))"


def insert_new(
    dialect: str, table: sa.Table, columns: Sequence[str] = (), select: sa.SelectBase | None = None
) -> sa.Insert:
    """An INSERT of given or of selected rows, which leaves alone what is there already."""
    if dialect == "mysql":
        new = _insert(mysql.insert(table), columns, select)
        # IGNORE would do, but it also cuts off values that are too long.
        first = next(iter(table.primary_key.columns))
        return new.on_duplicate_key_update({first.name: first})
    insert = postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)
    return _insert(insert, columns, select).on_conflict_do_nothing()


def insert_or_update(
    dialect: str,
    table: sa.Table,
    key: Sequence[str],
    taken: Sequence[str],
    columns: Sequence[str] = (),
    select: sa.SelectBase | None = None,
    emptied: Sequence[str] = (),
) -> sa.Insert:
    """An INSERT that changes rows that are there already.

    They take the columns `taken` of the new row, and lose what they have in those of `emptied`.
    """
    empty = dict.fromkeys(emptied)
    if dialect == "mysql":
        rows = _insert(mysql.insert(table), columns, select)
        return rows.on_duplicate_key_update(
            {**{name: rows.inserted[name] for name in taken}, **empty}
        )
    on_conflict = _insert(
        postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table),
        columns,
        select,
    )
    return on_conflict.on_conflict_do_update(
        index_elements=list(key),
        set_={**{name: on_conflict.excluded[name] for name in taken}, **empty},
    )


def _insert(insert: _Insert, columns: Sequence[str], select: sa.SelectBase | None) -> _Insert:
    return insert if select is None else insert.from_select(list(columns), select)


def update_many(table: sa.Table) -> sa.Update:
    """An UPDATE of the rows that are in a list of `among` or `among_keys`.

    MariaDB finds them by their key only where more than one table is named; else it reads them all.
    """
    return sa.update(table).with_hint(", (SELECT 1) AS one_row", dialect_name="mysql")


def delete_many(table: sa.Table) -> sa.Delete:
    """A DELETE of the rows that are in a list, in the same way."""
    also = f"USING {table.name}, (SELECT 1) AS one_row"
    return sa.delete(table).with_hint(also, dialect_name="mysql")


def among(
    column: sa.ColumnElement[Any], parameter: str, listed: str | None = None
) -> sa.ColumnElement[bool]:
    """Whether the column is in a list that `as_list` made, given now or to the parameter later.

    The list travels as one value, so that a statement is the same, and prepared once, however
    many ids there are.
    """
    given = sa.bindparam(parameter, listed, type_=sa.Text, required=listed is None)
    each = _each_of(given).table_valued("value")
    return column.in_(sa.select(each.c.value))


def as_list(ids: Iterable[str]) -> str:
    """Ids as the value of a parameter of `among`."""
    return msgspec.json.encode(list(ids)).decode()


def delete_some(
    connection: StoreConnection,
    table: sa.Table,
    which: Sequence[sa.ColumnElement[bool]],
    key: str,
    most: int,
) -> int:
    """Delete no more than so many of these rows, which `key` tells apart; how many there were."""
    some = sa.select(table.c[key]).where(*which).limit(most)
    if connection.dialect != "mysql":
        return connection.execute(sa.delete(table).where(*which, table.c[key].in_(some))).rowcount
    # MySQL cannot limit what a condition selects.
    keys = as_list(connection.execute(some).scalars())
    these = delete_many(table).where(*which, among(table.c[key], "some_keys", keys))
    return connection.execute(these).rowcount


_REPETITION_DIGITS = 6


def among_keys(
    item_id: sa.ColumnElement[Any], repetition: sa.ColumnElement[Any], parameter: str
) -> sa.ColumnElement[bool]:
    """Whether both columns together are in a list that `as_keys` made, given to the parameter."""
    given = sa.bindparam(parameter, type_=sa.Text, required=True)
    each = _each_of(given).table_valued("value").c.value
    return sa.tuple_(item_id, repetition).in_(
        sa.select(
            sa.func.substr(each, _REPETITION_DIGITS + 1),
            sa.cast(sa.func.substr(each, 1, _REPETITION_DIGITS), sa.Integer),
        )
    )


def as_keys(keys: Iterable[ItemKey]) -> str:
    """Keys as the value of a parameter of `among_keys`: each is the repetition, then the item."""
    return as_list(f"{repetition:0{_REPETITION_DIGITS}}{item_id}" for item_id, repetition in keys)


def numbers_below(most: int) -> sa.FromClause:
    """The numbers from 0 on as rows of a column `number`, for joins that repeat rows."""
    listed = sa.literal(msgspec.json.encode(list(range(most))).decode(), sa.Text)
    each = _each_of(listed).table_valued("value")
    return sa.select(sa.cast(each.c.value, sa.Integer).label("number")).subquery("repeated")


def storable(text: str) -> str:
    """The text as every database can store it: without NUL characters and lone surrogates."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    return text.replace("\x00", "�")
