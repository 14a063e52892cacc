"""PostgreSQL: how it is reached, and what its errors mean."""

from dragoman.store.postgres.server import PostgresServer

__all__ = ["PostgresServer"]
