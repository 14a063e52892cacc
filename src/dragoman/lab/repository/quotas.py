"""Limits of single tenants, where they differ from those of the settings."""

from __future__ import annotations

import sqlalchemy as sa

from dragoman.ids import TenantId
from dragoman.lab.budgets import Quota
from dragoman.lab.repository.statements import insert_new
from dragoman.lab.repository.tables import quota
from dragoman.store import StoreConnection

_LIMITS = ("running_experiments", "tokens", "cost")
_OF_TENANT = sa.select(*(quota.c[name] for name in _LIMITS)).where(
    quota.c.tenant == sa.bindparam("tenant")
)


def find_quota(connection: StoreConnection, tenant: TenantId) -> Quota:
    """What was set for the tenant; nothing where the settings hold."""
    row = connection.execute(_OF_TENANT, {"tenant": tenant}).first()
    return Quota() if row is None else Quota(row.running_experiments, row.tokens, row.cost)


def set_quota(connection: StoreConnection, tenant: TenantId, wanted: Quota) -> None:
    """Set the limits of a tenant; those that are None follow the settings."""
    connection.execute(insert_new(connection.dialect, quota), {"tenant": tenant})
    connection.execute(
        sa.update(quota)
        .where(quota.c.tenant == tenant)
        .values(**{name: getattr(wanted, name) for name in _LIMITS})
    )


def quotas_of_tenants(connection: StoreConnection) -> dict[TenantId, Quota]:
    """Every tenant that has a limit of its own."""
    rows = connection.execute(
        sa.select(quota)
        .where(sa.or_(*(quota.c[name].is_not(None) for name in _LIMITS)))
        .order_by(quota.c.tenant)
    )
    return {
        TenantId(row.tenant): Quota(row.running_experiments, row.tokens, row.cost) for row in rows
    }
