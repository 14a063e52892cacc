"""Windows of time and tenants' limits on Redis."""

from __future__ import annotations

from dragoman.ids import InstanceId, TenantId
from dragoman.live.cluster.answers import Block, Counted, Limited
from dragoman.live.cluster.redis.tags import Tags


class LimitOperations:
    """Counts that hold over all instances."""

    _tags: Tags
    _instance_id: InstanceId

    async def first_in_window(self, key: str, window_ms: int) -> bool:
        count, _ = await self._tags.ask_window(f"first:{key}", "count", window_ms)
        return bool(count == 1)

    async def count_in_window(self, key: str, limit: int, window_ms: int) -> Counted:
        count, resets_in_ms = await self._tags.ask_window(f"count:{key}", "count", window_ms)
        return Counted(count <= limit, count, resets_in_ms)

    async def hold(
        self, what: Limited, tenant: TenantId, *, used: int, wanted: int, limit: int, ttl_ms: int
    ) -> Block:
        size, held = await self._tags.ask_tenant(
            tenant, "hold", what, self._instance_id, used, wanted, limit, ttl_ms
        )
        return Block(size, held)
