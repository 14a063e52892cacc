"""What was used, in the database: one row for each tenant, day and process that counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from dragoman.ids import TenantId
from dragoman.store import Store, StoreConnection, metadata, short_text
from dragoman.usage.tally import Row

tenant_usage = sa.Table(
    "tenant_usage",
    metadata,
    sa.Column("day", short_text(10), primary_key=True),
    sa.Column("tenant", short_text(), primary_key=True),
    sa.Column("counted_by", short_text(64), primary_key=True),
    sa.Column("jobs", sa.BigInteger(), nullable=False),
    sa.Column("audio_ms", sa.BigInteger(), nullable=False),
    sa.Column("characters", sa.BigInteger(), nullable=False),
    sa.Column("tokens_in", sa.BigInteger(), nullable=False),
    sa.Column("tokens_out", sa.BigInteger(), nullable=False),
)
"""A process writes only rows of its own, each with its whole total: a write that is repeated, or
whose answer was lost, counts nothing twice, and instances never wait for each other."""

_AMOUNTS = ("jobs", "audio_ms", "characters", "tokens_in", "tokens_out")
_ROWS_PER_STATEMENT = 200
_used = tenant_usage.c

Position = tuple[str, str]
"""A day and a tenant: where a page of the list begins."""


class DayUsage(msgspec.Struct, frozen=True):
    """What one tenant used on one day, over all instances."""

    tenant_id: TenantId
    day: str
    jobs: int
    audio_seconds: float
    characters: int
    tokens_in: int
    tokens_out: int


class UsageStore:
    """The totals of every process, and their sums."""

    def __init__(self, store: Store, counted_by: str) -> None:
        """counted_by names this process among all that ever count."""
        self._store = store
        self._counted_by = counted_by

    async def write(self, totals: Mapping[Row, Sequence[int]]) -> None:
        """Write this process's totals in the place of those that it wrote before."""
        rows = [
            {
                "day": day,
                "tenant": tenant,
                "counted_by": self._counted_by,
                **dict(zip(_AMOUNTS, values, strict=True)),
            }
            for (tenant, day), values in totals.items()
        ]

        def write(connection: StoreConnection) -> None:
            for start in range(0, len(rows), _ROWS_PER_STATEMENT):
                some = rows[start : start + _ROWS_PER_STATEMENT]
                for row in some:
                    connection.execute(
                        sa.delete(tenant_usage).where(
                            _used.day == row["day"],
                            _used.tenant == row["tenant"],
                            _used.counted_by == self._counted_by,
                        )
                    )
                connection.execute(sa.insert(tenant_usage), some)

        if not rows:
            return
        try:
            await self._store.write(write)
        except IntegrityError:
            # An earlier write, whose caller was cancelled, ended at the same moment.
            await self._store.write(write)

    async def page(
        self,
        limit: int | None,
        *,
        tenant: TenantId | None = None,
        first_day: str | None = None,
        last_day: str | None = None,
        after: Position | None = None,
    ) -> list[DayUsage]:
        """Days and tenants in order, from a position on; all tenants unless one is named."""
        sums = [sa.func.sum(_used[name]).label(name) for name in _AMOUNTS]
        found = sa.select(_used.day, _used.tenant, *sums).group_by(_used.day, _used.tenant)
        if tenant is not None:
            found = found.where(_used.tenant == tenant)
        if first_day is not None:
            found = found.where(_used.day >= first_day)
        if last_day is not None:
            found = found.where(_used.day <= last_day)
        if after is not None:
            day, name = after
            found = found.where(
                sa.or_(_used.day > day, sa.and_(_used.day == day, _used.tenant > name))
            )
        found = found.order_by(_used.day, _used.tenant)
        if limit is not None:
            found = found.limit(limit)
        return await self._store.read(lambda c: [_day(row) for row in c.execute(found)])


def _day(row: sa.Row[Any]) -> DayUsage:
    return DayUsage(
        TenantId(row.tenant),
        row.day,
        int(row.jobs),
        int(row.audio_ms) / 1000,
        int(row.characters),
        int(row.tokens_in),
        int(row.tokens_out),
    )
