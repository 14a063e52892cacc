"""The tables' common ground: one collection of tables, and column types that three databases share.

A room declares its own tables on ``metadata``; the migrations create them.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

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

_MYSQL = ("mysql", "mariadb")
_MYSQL_COLLATION = "utf8mb4_bin"

SHORT_TEXT_CHARACTERS = 190
"""The longest text that every supported database can index."""


def short_text(characters: int = SHORT_TEXT_CHARACTERS) -> sa.types.TypeEngine[str]:
    """Text that is compared exactly and may be indexed: ids, names, states."""
    exact = mysql.VARCHAR(characters, charset="utf8mb4", collation=_MYSQL_COLLATION)
    return sa.String(characters).with_variant(exact, *_MYSQL)


def long_text() -> sa.types.TypeEngine[str]:
    """Text of any length, never indexed: inputs, outputs, JSON documents."""
    exact = mysql.LONGTEXT(charset="utf8mb4", collation=_MYSQL_COLLATION)
    return sa.Text().with_variant(exact, *_MYSQL)


def time_ms() -> sa.types.TypeEngine[int]:
    """A moment, as milliseconds since 1970."""
    return sa.BigInteger()
