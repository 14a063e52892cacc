"""Migrations on MariaDB and MySQL, where every step is stored by itself.

A migration that breaks off leaves its first steps done. When it is run again, those are skipped.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic.ddl.mysql import MySQLImpl


class ResumingSteps(MySQLImpl):
    """Alembic's steps, each of which first looks whether it was done before."""

    __dialect__ = "mysql"  # by this name Alembic finds the class

    def create_table(self, table: sa.Table, **options: Any) -> None:
        if not self._tables.has_table(table.name):
            super().create_table(table, **options)

    def add_column(self, table_name: str, column: sa.Column[Any], **options: Any) -> None:
        if column.name not in {one["name"] for one in self._tables.get_columns(table_name)}:
            super().add_column(table_name, column, **options)

    def create_index(self, index: sa.Index, **options: Any) -> None:
        if not self._has(index):
            super().create_index(index, **options)

    def drop_index(self, index: sa.Index, **options: Any) -> None:
        if self._has(index):
            super().drop_index(index, **options)

    def add_constraint(self, const: Any, **options: Any) -> None:
        is_key = isinstance(const, sa.PrimaryKeyConstraint)
        if not is_key or self._key_of(const.table) != [one.name for one in const.columns]:
            super().add_constraint(const, **options)

    def drop_constraint(self, const: sa.Constraint, **options: Any) -> None:
        if not isinstance(const, sa.PrimaryKeyConstraint) or self._key_of(const.table):
            super().drop_constraint(const, **options)

    def _has(self, index: sa.Index) -> bool:
        assert index.table is not None
        return index.name in {one["name"] for one in self._tables.get_indexes(index.table.name)}

    def _key_of(self, table: sa.Table) -> list[str]:
        return list(self._tables.get_pk_constraint(table.name)["constrained_columns"])

    @property
    def _tables(self) -> sa.Inspector:
        """What is there now; an inspector remembers what it has seen."""
        assert self.connection is not None
        return sa.inspect(self.connection)
