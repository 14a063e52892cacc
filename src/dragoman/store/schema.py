"""The tables' common ground: one collection of tables, and column types that three databases share.

A room declares its own tables on ``metadata``; the migrations create them.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles

metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)
"""Every table that Dragoman keeps; constraints have names, so that migrations can change them."""

MARIADB_COLLATION = "utf8mb4_nopad_bin"
MYSQL_COLLATION = "utf8mb4_0900_bin"
"""Collations that tell every two texts apart, as the other databases do. utf8mb4_bin does not: to
it a text and the same text with a blank behind it are equal."""

SHORT_TEXT_CHARACTERS = 190
"""The longest text that every supported database can index."""


class _ExactText(mysql.VARCHAR):
    """Text of MariaDB or MySQL that is compared character by character."""


class _ExactLongText(mysql.LONGTEXT):
    """The same, of any length."""


@compiles(_ExactText, "mysql")
@compiles(_ExactLongText, "mysql")
def _exact(type_: _ExactText | _ExactLongText, compiler: Any, **options: Any) -> str:
    kind = "LONGTEXT" if isinstance(type_, mysql.LONGTEXT) else f"VARCHAR({type_.length})"
    return f"{kind} CHARACTER SET utf8mb4 COLLATE {exact_collation(compiler.dialect)}"


def exact_collation(dialect: sa.Dialect) -> str:
    """The collation of MariaDB, or of MySQL, that tells every two texts apart."""
    return MARIADB_COLLATION if getattr(dialect, "is_mariadb", False) else MYSQL_COLLATION


def short_text(characters: int = SHORT_TEXT_CHARACTERS) -> sa.types.TypeEngine[str]:
    """Text that is compared exactly and may be indexed: ids, names, states."""
    return sa.String(characters).with_variant(_ExactText(characters), "mysql")


def long_text() -> sa.types.TypeEngine[str]:
    """Text of any length, never indexed: inputs, outputs, JSON documents."""
    return sa.Text().with_variant(_ExactLongText(), "mysql")


def real() -> sa.types.TypeEngine[float]:
    """A number with 53 bits of precision, as Python's; FLOAT is half of one to MySQL."""
    return sa.Float().with_variant(mysql.DOUBLE(asdecimal=False), "mysql")


def time_ms() -> sa.types.TypeEngine[int]:
    """A moment, as milliseconds since 1970."""
    return sa.BigInteger()
