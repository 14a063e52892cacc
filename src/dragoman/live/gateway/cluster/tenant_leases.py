"""What tenants have of something, counted over all instances."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Generic, TypeVar

from dragoman.errors import DependencyDown, RateLimited
from dragoman.ids import JobId, SessionId, TenantId
from dragoman.live.cluster import Limited, Limits
from dragoman.observability import get_logger

log = get_logger("dragoman.cluster")

TTL_SECONDS = 30.0
"""What an instance had that is gone counts no longer than this."""

_RENEWALS_IN_TTL = 3
_RETRY_MS = 1000

BLOCKS_IN_LIMIT = 64
"""An instance keeps up to this part of the limit in hand, unused: of a limit below it nothing."""

_SETTINGS = {
    Limited.SESSIONS: ("sessions", "limits.sessions_per_tenant"),
    Limited.IN_FLIGHT: ("jobs that have not ended", "limits.max_inflight_per_tenant"),
}

Id = TypeVar("Id", SessionId, JobId)


class _Tenant(Generic[Id]):
    """What this instance has of one tenant, and how much it may have."""

    def __init__(self) -> None:
        self.held: set[Id] = set()
        self.size = 0
        self.until = 0.0
        """On the event loop's clock: when the block runs out."""
        self.asking = asyncio.Lock()


class TenantLeases(Generic[Id]):
    """Counts what this instance has against its tenants' limits, for as long as it has it.

    The limit is shared out in blocks: what fits into this instance's block is counted here alone.
    Only what is new is ever refused. What could not be given back is forgotten when no instance
    renews it. Near the limit a tenant may be refused although other instances have some of their
    blocks unused: at most a `BLOCKS_IN_LIMIT`th of the limit on each.
    """

    def __init__(self, what: Limited, limits: Limits, limit: int) -> None:
        self._what = what
        self._limits = limits
        self._limit = limit
        self._spare = limit // BLOCKS_IN_LIMIT
        self._tenants: defaultdict[TenantId, _Tenant[Id]] = defaultdict(_Tenant)
        self._uneven: set[TenantId] = set()
        """Tenants whose blocks do not fit what is held of them."""
        self._changed = asyncio.Event()

    async def acquire(self, tenant: TenantId, lease_id: Id) -> None:
        """Count one more; RateLimited when the tenant has as many as it may."""
        known = self._tenants[tenant]
        if lease_id in known.held:
            return
        if not self._has_room(known):
            async with known.asking:
                if not self._has_room(known):
                    await self._hold(tenant, known, more=1)
            if not self._has_room(known):
                self._forget(tenant)
                things, setting = _SETTINGS[self._what]
                raise RateLimited(
                    f"Tenant {tenant!r} has {self._limit} {things}, as many as it may ({setting}); "
                    "try again when one is over.",
                    retry_after_ms=_RETRY_MS,
                )
        known.held.add(lease_id)

    def adopt(self, tenant: TenantId, lease_id: Id) -> None:
        """Go on counting what was counted before, here or elsewhere, whatever the limit."""
        known = self._tenants[tenant]
        if lease_id not in known.held:
            known.held.add(lease_id)
            if len(known.held) > known.size:
                self._tell_soon(tenant)

    def hand_on(self, tenant: TenantId, lease_id: Id) -> None:
        """Leave the counting to another instance."""
        self.release(tenant, lease_id)

    def release(self, tenant: TenantId, lease_id: Id) -> None:
        """It is over."""
        known = self._tenants.get(tenant)
        if known is None or lease_id not in known.held:
            return
        known.held.discard(lease_id)
        if not known.held or known.size - len(known.held) > 2 * self._spare:
            self._tell_soon(tenant)

    async def run(self) -> None:
        """Renew what is held and give back what is not, until cancelled."""
        while True:
            tenants = await self._wait()
            for tenant in tenants:
                try:
                    await self._tell(tenant)
                except DependencyDown as error:
                    log.warning_limited(
                        "tenant_leases_not_renewed",
                        key=self._what,
                        every_seconds=10,
                        error=error.message,
                    )

    async def _wait(self) -> list[TenantId]:
        """Until it is time to renew everything, or there is something to tell."""
        try:
            async with asyncio.timeout(TTL_SECONDS / _RENEWALS_IN_TTL):
                await self._changed.wait()
        except TimeoutError:
            return list(self._tenants)
        self._changed.clear()
        uneven, self._uneven = self._uneven, set()
        return list(uneven)

    async def _tell(self, tenant: TenantId) -> None:
        known = self._tenants.get(tenant)
        if known is not None:
            async with known.asking:
                await self._hold(tenant, known)
            self._forget(tenant)

    async def _hold(self, tenant: TenantId, known: _Tenant[Id], more: int = 0) -> None:
        used = len(known.held)
        asked_at = asyncio.get_running_loop().time()
        block = await self._limits.hold(
            self._what,
            tenant,
            used=used,
            wanted=used + more + self._spare if used + more else 0,
            limit=self._limit,
            ttl_ms=int(TTL_SECONDS * 1000),
        )
        known.size, known.until = block.size, asked_at + TTL_SECONDS

    def _has_room(self, known: _Tenant[Id]) -> bool:
        fresh = asyncio.get_running_loop().time() < known.until
        return fresh and len(known.held) < known.size

    def _tell_soon(self, tenant: TenantId) -> None:
        self._uneven.add(tenant)
        self._changed.set()

    def _forget(self, tenant: TenantId) -> None:
        """A tenant of which nothing is left need not be renewed."""
        known = self._tenants.get(tenant)
        if known is not None and not known.held and not known.size and not known.asking.locked():
            del self._tenants[tenant]
