"""PostgreSQL: the database for more than one machine."""

from dragoman.store.postgres.database import PostgresDatabase

__all__ = ["PostgresDatabase"]
