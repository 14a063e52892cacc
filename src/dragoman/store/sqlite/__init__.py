"""SQLite: the database that needs nothing installed."""

from dragoman.store.sqlite.backup import copy_database, integrity_problems
from dragoman.store.sqlite.connect import cannot_use, when_free, writer_engine
from dragoman.store.sqlite.store import SqliteStore

__all__ = [
    "SqliteStore",
    "cannot_use",
    "copy_database",
    "integrity_problems",
    "when_free",
    "writer_engine",
]
