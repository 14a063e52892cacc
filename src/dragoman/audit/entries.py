"""The entries of the audit log, in the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
import sqlalchemy as sa

from dragoman.printable import printable
from dragoman.store import Store, StoreConnection, long_text, metadata, short_text, time_ms

_NAME_CHARACTERS = 190

audit_entry = sa.Table(
    "audit_entry",
    metadata,
    sa.Column("id", short_text(64), primary_key=True),
    sa.Column("at_ms", time_ms(), nullable=False),
    sa.Column("actor", short_text(), nullable=False),
    sa.Column("role", short_text(32)),
    sa.Column("tenant", short_text(), nullable=False),
    sa.Column("address", short_text(64), nullable=False),
    sa.Column("action", short_text(64), nullable=False),
    sa.Column("subject", short_text(), nullable=False),
    sa.Column("outcome", short_text(32), nullable=False),
    sa.Column("facts", long_text(), nullable=False),
    sa.Index("ix_audit_entry_at_ms_id", "at_ms", "id"),
)

_kept = audit_entry.c

AuditPosition = tuple[int, str]
"""A time and an entry's id: where a page of the list begins."""


class AuditOutcome(StrEnum):
    """How an action ended."""

    DONE = "done"
    REFUSED = "refused"
    """The actor may not do it, or it could not be done so; nothing was changed."""
    FAILED = "failed"
    """The server could not carry it out; some of it may have happened."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One action: who did what, to what, when, and how it ended."""

    entry_id: str
    at_ms: int
    actor: str
    """The id of a key, ``cli:`` and a user of the machine, or ``anyone`` in open mode."""
    role: str | None
    tenant: str
    address: str
    action: str
    """What was done, such as ``node.drain``."""
    subject: str
    """To what: the id of a node, a session, a key..."""
    outcome: AuditOutcome
    facts: Mapping[str, Any] = {}
    """More that is known, such as the code of a refusal."""


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries are asked for; what is None is not looked at."""

    actor: str | None = None
    action: str | None = None
    subject: str | None = None
    outcome: AuditOutcome | None = None
    from_ms: int | None = None
    to_ms: int | None = None


def insert_entry(connection: StoreConnection, entry: AuditEntry) -> None:
    """Write one entry, in the transaction of what it tells of."""
    connection.execute(sa.insert(audit_entry), _row(entry))


class AuditStore:
    """The entries of every process that uses the database."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def add(self, entries: Sequence[AuditEntry]) -> None:
        """Write entries; those that an earlier write has brought there already stay once."""
        ids = [entry.entry_id for entry in entries]

        def insert(connection: StoreConnection) -> None:
            there = set(connection.execute(sa.select(_kept.id).where(_kept.id.in_(ids))).scalars())
            for entry in entries:
                if entry.entry_id not in there:
                    insert_entry(connection, entry)

        await self._store.write(insert)

    async def page(
        self, limit: int, wanted: AuditFilter, before: AuditPosition | None = None
    ) -> list[AuditEntry]:
        """Entries, newest first, from a position on."""
        found = sa.select(audit_entry)
        for column, value in (
            (_kept.actor, wanted.actor),
            (_kept.action, wanted.action),
            (_kept.subject, wanted.subject),
            (_kept.outcome, wanted.outcome),
        ):
            if value is not None:
                found = found.where(column == _text(str(value), _NAME_CHARACTERS))
        if wanted.from_ms is not None:
            found = found.where(_kept.at_ms >= wanted.from_ms)
        if wanted.to_ms is not None:
            found = found.where(_kept.at_ms < wanted.to_ms)
        if before is not None:
            at_ms, entry_id = before
            older = sa.and_(_kept.at_ms == at_ms, _kept.id < _text(entry_id, 64))
            found = found.where(sa.or_(_kept.at_ms < at_ms, older))
        found = found.order_by(_kept.at_ms.desc(), _kept.id.desc()).limit(limit)
        return await self._store.read(lambda c: [_entry(row) for row in c.execute(found)])

    async def remove_before(self, at_ms: int) -> int:
        """Remove the entries that are older; how many there were."""

        def delete(connection: StoreConnection) -> int:
            removed = sa.delete(audit_entry).where(_kept.at_ms < at_ms)
            return connection.execute(removed).rowcount

        return await self._store.write(delete)


def _row(entry: AuditEntry) -> dict[str, Any]:
    return {
        "id": entry.entry_id,
        "at_ms": entry.at_ms,
        "actor": _text(entry.actor, _NAME_CHARACTERS),
        "role": entry.role,
        "tenant": _text(entry.tenant, _NAME_CHARACTERS),
        "address": _text(entry.address, 64),
        "action": entry.action,
        "subject": _text(entry.subject, _NAME_CHARACTERS),
        "outcome": entry.outcome.value,
        "facts": _text(msgspec.json.encode(entry.facts).decode(), None),
    }


def _text(text: str, most: int | None) -> str:
    """As every database takes it: callers choose ids, and some characters are refused."""
    return printable(text)[:most]


def _entry(row: sa.Row[Any]) -> AuditEntry:
    return AuditEntry(
        entry_id=row.id,
        at_ms=row.at_ms,
        actor=row.actor,
        role=row.role,
        tenant=row.tenant,
        address=row.address,
        action=row.action,
        subject=row.subject,
        outcome=AuditOutcome(row.outcome),
        facts=msgspec.json.decode(row.facts),
    )
