"""The SQL engine room: URLs, whole writes, consistent reads, migrations, backups."""

from dragoman.store.interface import Notifications, Store, StoreConnection, StoreServerFacts, Work
from dragoman.store.opening import (
    ask_server,
    backup,
    find_damage,
    open_notifications,
    open_store,
)
from dragoman.store.schema import exact_collation, long_text, metadata, real, short_text, time_ms
from dragoman.store.upgrades import SchemaState, SchemaStatus, check, upgrade

__all__ = [
    "Notifications",
    "SchemaState",
    "SchemaStatus",
    "Store",
    "StoreConnection",
    "StoreServerFacts",
    "Work",
    "ask_server",
    "backup",
    "check",
    "exact_collation",
    "find_damage",
    "long_text",
    "metadata",
    "open_notifications",
    "open_store",
    "real",
    "short_text",
    "time_ms",
    "upgrade",
]
