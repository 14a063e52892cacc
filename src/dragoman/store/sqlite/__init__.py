"""SQLite: the database that needs nothing installed."""

from dragoman.store.sqlite.database import SqliteDatabase

__all__ = ["SqliteDatabase"]
