"""The stored terms: set, listed and removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from dragoman.clock import Clock
from dragoman.errors import NotFound, QuotaExceeded
from dragoman.glossary.terms import Entry, plain_term
from dragoman.ids import TenantId
from dragoman.live.protocol import normal_language
from dragoman.store import Store, StoreConnection, long_text, metadata, short_text, time_ms

glossary_term = sa.Table(
    "glossary_term",
    metadata,
    sa.Column("tenant", short_text(), primary_key=True),
    sa.Column("src_key", short_text(64), primary_key=True),
    sa.Column("tgt_key", short_text(64), primary_key=True),
    sa.Column("term", short_text(), primary_key=True),
    sa.Column("src_lang", short_text(64), nullable=False),
    sa.Column("tgt_lang", short_text(64)),
    sa.Column("translation", long_text()),
    sa.Column("updated_at_ms", time_ms(), nullable=False),
)

glossary_revision = sa.Table(
    "glossary_revision",
    metadata,
    sa.Column("tenant", short_text(), primary_key=True),
    sa.Column("revision", sa.BigInteger(), nullable=False),
)
"""One row a tenant, raised with each change: by it instances see what is new to them."""

Position = tuple[str, str, str]
"""The key of an entry: where a page of the list begins."""

_term = glossary_term.c
_KEY = (_term.src_key, _term.tgt_key, _term.term)


class StoredEntry(msgspec.Struct, frozen=True):
    """An entry, and when it was set."""

    entry: Entry
    updated_at_ms: int


class GlossaryStore:
    """The terms of every tenant, in one database. Other processes may change them at any time."""

    def __init__(self, store: Store, clock: Clock, terms_per_tenant: int) -> None:
        self._store = store
        self._clock = clock
        self._most = terms_per_tenant

    async def set(self, tenant: TenantId, entries: Sequence[Entry]) -> list[StoredEntry]:
        """Add the entries, or replace those of the same languages and term; all, or none.

        Of several with the same languages and term the last one counts.
        """
        now_ms = self._clock.now_ms()
        rows = {entry.key: _row(tenant, entry, now_ms) for entry in entries}

        def write(connection: StoreConnection) -> None:
            _raise_revision(connection, tenant)
            for source, target, term in rows:
                connection.execute(_delete(tenant, source, target, term))
            connection.execute(sa.insert(glossary_term), list(rows.values()))
            count = connection.execute(
                sa.select(sa.func.count()).select_from(glossary_term).where(_term.tenant == tenant)
            ).scalar_one()
            if count > self._most:
                raise QuotaExceeded(
                    f"Tenant {tenant} would have {count:,} terms; scheduler.glossary."
                    f"terms_per_tenant allows {self._most:,}. Remove some first."
                )

        if not rows:
            return []
        try:
            await self._store.write(write)
        except IntegrityError:
            # Another process made the tenant's first row at the same moment.
            await self._store.write(write)
        return [StoredEntry(entry, now_ms) for entry in {e.key: e for e in entries}.values()]

    async def remove(
        self, tenant: TenantId, src_lang: str, tgt_lang: str | None, term: str
    ) -> None:
        """Remove an entry; raises NotFound when there is none."""
        source = normal_language(src_lang)
        target = "" if tgt_lang is None else normal_language(tgt_lang)
        term = plain_term(term)

        def write(connection: StoreConnection) -> int:
            gone = connection.execute(_delete(tenant, source, target, term)).rowcount
            if gone:
                _raise_revision(connection, tenant)
            return gone

        if not await self._store.write(write):
            into = f" into {tgt_lang}" if tgt_lang is not None else ""
            raise NotFound(f"The glossary has no term {term!r} of {src_lang}{into}.")

    async def page(
        self,
        tenant: TenantId,
        limit: int,
        after: Position | None = None,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
    ) -> Sequence[StoredEntry]:
        """Entries in the order of languages and terms, from a position on."""
        found = sa.select(glossary_term).where(_term.tenant == tenant)
        if src_lang is not None:
            found = found.where(_term.src_key == normal_language(src_lang))
        if tgt_lang is not None:
            found = found.where(_term.tgt_key == normal_language(tgt_lang))
        if after is not None:
            source, target, term = after
            found = found.where(
                sa.or_(
                    _term.src_key > source,
                    sa.and_(_term.src_key == source, _term.tgt_key > target),
                    sa.and_(_term.src_key == source, _term.tgt_key == target, _term.term > term),
                )
            )
        found = found.order_by(*_KEY).limit(limit)
        return await self._store.read(lambda c: [_stored(row) for row in c.execute(found)])

    async def revisions(self) -> dict[TenantId, int]:
        """How often each tenant's terms were changed."""
        return await self._store.read(
            lambda connection: {
                TenantId(row.tenant): row.revision
                for row in connection.execute(sa.select(glossary_revision))
            }
        )

    async def whole(self, tenant: TenantId) -> tuple[int, list[Entry]]:
        """The tenant's revision and all its entries, those that were set last first."""

        def read(connection: StoreConnection) -> tuple[int, list[Entry]]:
            revision = connection.execute(_revision_of(tenant)).scalar()
            rows = connection.execute(
                sa.select(glossary_term)
                .where(_term.tenant == tenant)
                .order_by(_term.updated_at_ms.desc(), *_KEY)
            )
            return int(revision or 0), [_stored(row).entry for row in rows]

        return await self._store.read(read)


def _revision_of(tenant: TenantId) -> sa.Select[tuple[int]]:
    of_tenant = glossary_revision.c.tenant == tenant
    return sa.select(glossary_revision.c.revision).where(of_tenant)


def _raise_revision(connection: StoreConnection, tenant: TenantId) -> None:
    """Take the tenant's row first: those who change one tenant's terms do so one by one."""
    raised = connection.execute(
        sa.update(glossary_revision)
        .where(glossary_revision.c.tenant == tenant)
        .values(revision=glossary_revision.c.revision + 1)
    )
    if not raised.rowcount:
        connection.execute(sa.insert(glossary_revision), {"tenant": tenant, "revision": 1})


def _delete(tenant: TenantId, source: str, target: str, term: str) -> sa.Delete:
    return sa.delete(glossary_term).where(
        _term.tenant == tenant,
        _term.src_key == source,
        _term.tgt_key == target,
        _term.term == term,
    )


def _row(tenant: TenantId, entry: Entry, now_ms: int) -> dict[str, Any]:
    source, target, term = entry.key
    return {
        "tenant": tenant,
        "src_key": source,
        "tgt_key": target,
        "term": term,
        "src_lang": entry.src_lang,
        "tgt_lang": entry.tgt_lang,
        "translation": entry.translation,
        "updated_at_ms": now_ms,
    }


def _stored(row: sa.Row[Any]) -> StoredEntry:
    entry = Entry(row.src_lang, row.term, row.tgt_lang, row.translation)
    return StoredEntry(entry, row.updated_at_ms)
