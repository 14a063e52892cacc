"""Windows of time and tenants' limits on Redis."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.ids import TenantId
from dragoman.live.cluster.answers import Acquired, Counted, Limited, LimitReached
from dragoman.live.cluster.redis.tags import Tags


class LimitOperations:
    """Counts that hold over all instances."""

    _tags: Tags

    async def first_in_window(self, key: str, window_ms: int) -> bool:
        count, _ = await self._tags.ask_window(f"first:{key}", "count", window_ms)
        return bool(count == 1)

    async def count_in_window(self, key: str, limit: int, window_ms: int) -> Counted:
        count, resets_in_ms = await self._tags.ask_window(f"count:{key}", "count", window_ms)
        return Counted(count <= limit, count, resets_in_ms)

    async def acquire(
        self, what: Limited, tenant: TenantId, lease_id: str, limit: int, ttl_ms: int
    ) -> Acquired | LimitReached:
        held, count = await self._tags.ask_tenant(tenant, "acquire", what, lease_id, limit, ttl_ms)
        return Acquired(count) if held else LimitReached(count)

    async def keep(
        self, what: Limited, tenant: TenantId, lease_ids: Sequence[str], ttl_ms: int
    ) -> int:
        (count,) = await self._tags.ask_tenant(tenant, "keep", what, ttl_ms, tuple(lease_ids))
        return int(count)

    async def release(self, what: Limited, tenant: TenantId, lease_id: str) -> None:
        await self._tags.ask_tenant(tenant, "release", what, lease_id)
