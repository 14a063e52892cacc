"""Answers that were given before, by tenant and by what was asked."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from dragoman.ids import TenantId
from dragoman.lab.repository.statements import delete_some, insert_new
from dragoman.lab.repository.tables import response_cache
from dragoman.store import StoreConnection

ROWS_AT_ONCE = 5_000

_cache = response_cache.c

_FIND = sa.select(_cache.output_json).where(
    _cache.tenant == sa.bindparam("of_tenant"), _cache.key == sa.bindparam("of_key")
)


class CachedAnswer(msgspec.Struct, frozen=True):
    """An answer to keep."""

    tenant: TenantId
    key: str
    output_json: str
    created_at_ms: int


def find_answer(connection: StoreConnection, tenant: TenantId, key: str) -> str | None:
    """The answer that a tenant got before; None if there is none."""
    found = connection.execute(_FIND, {"of_tenant": tenant, "of_key": key}).scalar()
    return None if found is None else str(found)


def keep_answer(connection: StoreConnection, kept: CachedAnswer) -> None:
    """Keep an answer; the first one to the same question stays."""
    statement = insert_new(connection.dialect, response_cache)
    connection.execute(statement, msgspec.structs.asdict(kept))


def tenants_with_answers(connection: StoreConnection) -> list[TenantId]:
    """The tenants that have answers in the cache; a look at the index for each."""
    tenants: list[TenantId] = []
    while (
        found := next_tenant_with_answers(connection, tenants[-1] if tenants else "")
    ) is not None:
        tenants.append(found)
    return tenants


def next_tenant_with_answers(connection: StoreConnection, after: str) -> TenantId | None:
    """The first tenant by name, after one, that has answers in the cache."""
    ahead = sa.select(_cache.tenant).where(_cache.tenant > after).order_by(_cache.tenant)
    found = connection.execute(ahead.limit(1)).scalar()
    return None if found is None else TenantId(found)


def newest_surplus_ms(connection: StoreConnection, tenant: TenantId, most: int) -> int | None:
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


def remove_answers(
    connection: StoreConnection, tenant: TenantId, up_to_ms: int | None = None
) -> int:
    """Remove some of a tenant's answers, or of those given up to then; how many were removed."""
    which: Sequence[sa.ColumnElement[bool]] = [_cache.tenant == tenant]
    if up_to_ms is not None:
        which = [*which, _cache.created_at_ms <= up_to_ms]
    return delete_some(connection, response_cache, which, "key", ROWS_AT_ONCE)
