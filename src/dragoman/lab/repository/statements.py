"""The few pieces of SQL that databases write differently."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from dragoman.lab.model import ItemKey
from dragoman.store import Connection

Insert = sqlite.Insert | postgresql.Insert


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


def read_now_ms(connection: Connection) -> int:
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


def insert_into(connection: Connection, table: sa.Table) -> Insert:
    """An INSERT that can say what to do with rows that are there already."""
    if connection.dialect == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)


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
