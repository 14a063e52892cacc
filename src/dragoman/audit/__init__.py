"""Who did what to this server, when, and how it ended."""

from dragoman.audit.entries import (
    AuditEntry,
    AuditFilter,
    AuditOutcome,
    AuditPosition,
    AuditStore,
    insert_entry,
)
from dragoman.audit.log import AuditLog

__all__ = [
    "AuditEntry",
    "AuditFilter",
    "AuditLog",
    "AuditOutcome",
    "AuditPosition",
    "AuditStore",
    "insert_entry",
]
