"""Answers that were given before, by tenant and by what was asked."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from dragoman.ids import TenantId
from dragoman.lab.repository.statements import insert_into
from dragoman.lab.repository.tables import response_cache
from dragoman.store import Connection

ROWS_AT_ONCE = 5_000

_cache = response_cache.c

_FIND = sa.select(_cache.output_json).where(
    _cache.tenant == sa.bindparam("of_tenant"), _cache.key == sa.bindparam("of_key")
)


class Kept(msgspec.Struct, frozen=True):
    """An answer to keep."""

    tenant: TenantId
    key: str
    output_json: str
    created_at_ms: int


def find_answer(connection: Connection, tenant: TenantId, key: str) -> str | None:
    """The answer that a tenant got before; None if there is none."""
    found = connection.execute(_FIND, {"of_tenant": tenant, "of_key": key}).scalar()
    return None if found is None else str(found)


def keep_answer(connection: Connection, kept: Kept) -> None:
    """Keep an answer; the first one to the same question stays."""
    statement = insert_into(connection, response_cache).on_conflict_do_nothing()
    connection.execute(statement, msgspec.structs.asdict(kept))


def tenants_with_answers(connection: Connection) -> list[TenantId]:
    """The tenants that have answers in the cache."""
    return [TenantId(t) for t in connection.execute(sa.select(_cache.tenant).distinct()).scalars()]


def newest_surplus_ms(connection: Connection, tenant: TenantId, most: int) -> int | None:
    """When the newest of those answers was given that are too many; None if none is."""
    ordered = (
        sa.select(_cache.created_at_ms)
        .where(_cache.tenant == tenant)
        .order_by(_cache.created_at_ms.desc())
        .offset(most)
        .limit(1)
    )
    found = connection.execute(ordered).scalar()
    return None if found is None else int(found)


def remove_answers(connection: Connection, tenant: TenantId, up_to_ms: int | None = None) -> int:
    """Remove some of a tenant's answers, or of those given up to then; how many were removed."""
    which: Sequence[sa.ColumnElement[bool]] = [_cache.tenant == tenant]
    if up_to_ms is not None:
        which = [*which, _cache.created_at_ms <= up_to_ms]
    some = sa.select(_cache.key).where(*which).order_by(_cache.created_at_ms).limit(ROWS_AT_ONCE)
    removed = connection.execute(
        sa.delete(response_cache).where(_cache.tenant == tenant, _cache.key.in_(some))
    )
    return removed.rowcount
