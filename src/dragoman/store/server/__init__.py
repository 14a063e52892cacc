"""A database on a server: what PostgreSQL and MySQL have in common."""

from dragoman.store.server.database import ServerDatabase
from dragoman.store.server.kind import ServerKind
from dragoman.store.server.store import ServerStore

__all__ = ["ServerDatabase", "ServerKind", "ServerStore"]
