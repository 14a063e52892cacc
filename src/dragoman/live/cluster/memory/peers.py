"""An instance among its peers, in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from dragoman.ids import InstanceId, TenantId
from dragoman.live.cluster.answers import Block, Counted, Limited
from dragoman.live.cluster.changes import Change, encode_change, heard_from_others
from dragoman.live.cluster.memory.inbox import MemoryInbox
from dragoman.live.cluster.memory.presence import MemoryPresence
from dragoman.live.cluster.memory.records import FeedListener, Window


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
        listener = FeedListener(hear, on_gap)
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

    async def hold(
        self, what: Limited, tenant: TenantId, *, used: int, wanted: int, limit: int, ttl_ms: int
    ) -> Block:
        await self._there()
        blocks, now_ms = self._hub.blocks.setdefault((what, tenant), {}), self._now_ms
        for gone in [name for name, (_, until_ms) in blocks.items() if until_ms <= now_ms]:
            del blocks[gone]
        others = sum(size for name, (size, _) in blocks.items() if name != self._instance_id)
        size = max(used, min(wanted, max(0, limit - others)))
        if size:
            blocks[self._instance_id] = (size, now_ms + ttl_ms)
        else:
            blocks.pop(self._instance_id, None)
        if not blocks:
            del self._hub.blocks[what, tenant]
        self._back()
        return Block(size, others + size)

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
