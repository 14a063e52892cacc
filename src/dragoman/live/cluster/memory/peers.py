"""An instance among its peers, in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from dragoman.ids import InstanceId, TenantId
from dragoman.live.cluster.answers import Acquired, Counted, Limited, LimitReached
from dragoman.live.cluster.changes import Change, encode_change, heard_from_others
from dragoman.live.cluster.memory.inbox import MemoryInbox
from dragoman.live.cluster.memory.presence import MemoryPresence
from dragoman.live.cluster.memory.records import Listener, Window


class MemoryPeers(MemoryPresence, MemoryInbox):
    """One instance's place in a cluster within one process; `MemoryHub.peers` opens it."""

    async def publish(self, change: Change, to: InstanceId | None = None) -> None:
        await self._there()
        called = encode_change(self._instance_id, change)
        for name, listener in list(self._hub.listeners.items()):
            if to is None or to == name:
                self._hub.faults.carry_change(name, partial(listener.on_called, called))
        self._back()

    async def listen(self, on_change: Callable[[Change], None], on_gap: Callable[[], None]) -> None:
        def hear(called: bytes) -> None:
            change = heard_from_others(called, self._instance_id)
            if change is not None:
                on_change(change)

        await self._there()
        listener = Listener(hear, on_gap)
        self._hub.listeners[self._instance_id] = listener
        on_gap()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            if self._hub.listeners.get(self._instance_id) is listener:
                del self._hub.listeners[self._instance_id]

    async def first_in_window(self, key: str, window_ms: int) -> bool:
        return (await self._count(f"first:{key}", window_ms)).count == 1

    async def count_in_window(self, key: str, limit: int, window_ms: int) -> Counted:
        window = await self._count(f"count:{key}", window_ms)
        return Counted(window.count <= limit, window.count, window.ends_at_ms - self._now_ms)

    async def acquire(
        self, what: Limited, tenant: TenantId, lease_id: str, limit: int, ttl_ms: int
    ) -> Acquired | LimitReached:
        await self._there()
        leases = self._leases(what, tenant)
        if lease_id not in leases and len(leases) >= limit:
            return LimitReached(len(leases))
        leases[lease_id] = self._now_ms + ttl_ms
        self._back()
        return Acquired(len(leases))

    async def keep(
        self, what: Limited, tenant: TenantId, lease_ids: Sequence[str], ttl_ms: int
    ) -> int:
        await self._there()
        leases = self._leases(what, tenant)
        leases.update(dict.fromkeys(lease_ids, self._now_ms + ttl_ms))
        self._back()
        return len(leases)

    async def release(self, what: Limited, tenant: TenantId, lease_id: str) -> None:
        await self._there()
        leases = self._leases(what, tenant)
        leases.pop(lease_id, None)
        if not leases:
            del self._hub.leases[what, tenant]
        self._back()

    async def close(self) -> None:
        self._hub.listeners.pop(self._instance_id, None)

    async def _count(self, key: str, window_ms: int) -> Window:
        await self._there()
        windows, now_ms = self._hub.windows, self._now_ms
        window = windows.get(key)
        if window is None or window.ends_at_ms <= now_ms:
            for ended in [name for name, past in windows.items() if past.ends_at_ms <= now_ms]:
                del windows[ended]
            window = windows[key] = Window(now_ms + window_ms)
        window.count += 1
        self._back()
        return window

    def _leases(self, what: Limited, tenant: TenantId) -> dict[str, int]:
        """The tenant's leases, without those that have run out."""
        leases = self._hub.leases.setdefault((what, tenant), {})
        now_ms = self._now_ms
        for lease_id in [lease_id for lease_id, until in leases.items() if until <= now_ms]:
            del leases[lease_id]
        return leases
