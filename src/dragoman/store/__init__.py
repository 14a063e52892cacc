"""The SQL engine room: URLs, one writer, consistent readers, migrations, backups."""

from dragoman.store.interface import Connection, Store, Work
from dragoman.store.opening import backup, find_damage, open_store
from dragoman.store.schema import long_text, metadata, short_text, time_ms
from dragoman.store.upgrades import SchemaState, SchemaStatus, check, upgrade

__all__ = [
    "Connection",
    "SchemaState",
    "SchemaStatus",
    "Store",
    "Work",
    "backup",
    "check",
    "find_damage",
    "long_text",
    "metadata",
    "open_store",
    "short_text",
    "time_ms",
    "upgrade",
]
