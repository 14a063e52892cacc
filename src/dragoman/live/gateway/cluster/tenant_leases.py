"""What tenants have of something, counted over all instances."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Generic, TypeVar

from dragoman.errors import DependencyDown, RateLimited
from dragoman.ids import JobId, SessionId, TenantId
from dragoman.live.cluster import Limited, LimitReached, Limits
from dragoman.observability import get_logger

log = get_logger("dragoman.cluster")

TTL_SECONDS = 30.0
"""What an instance had that is gone counts no longer than this."""

_RENEWALS_IN_TTL = 3
_RETRY_MS = 1000

_SETTINGS = {
    Limited.SESSIONS: ("sessions", "limits.sessions_per_tenant"),
    Limited.IN_FLIGHT: ("jobs that have not ended", "limits.max_inflight_per_tenant"),
}

Id = TypeVar("Id", SessionId, JobId)


class TenantLeases(Generic[Id]):
    """Counts what this instance has against its tenants' limits, for as long as it has it.

    Only what is new is ever refused. What could not be given back is forgotten when no instance
    renews it.
    """

    def __init__(self, what: Limited, limits: Limits, limit: int) -> None:
        self._what = what
        self._limits = limits
        self._limit = limit
        self._held: defaultdict[TenantId, set[Id]] = defaultdict(set)
        self._adopted: list[tuple[TenantId, Id]] = []
        self._to_release: list[tuple[TenantId, Id]] = []
        self._changed = asyncio.Event()

    async def acquire(self, tenant: TenantId, lease_id: Id) -> None:
        """Count one more; RateLimited when the tenant has as many as it may."""
        answer = await self._limits.acquire(
            self._what, tenant, lease_id, self._limit, int(TTL_SECONDS * 1000)
        )
        if isinstance(answer, LimitReached):
            things, setting = _SETTINGS[self._what]
            raise RateLimited(
                f"Tenant {tenant!r} has {self._limit} {things}, as many as it may ({setting}); "
                "try again when one is over.",
                retry_after_ms=_RETRY_MS,
            )
        self._held[tenant].add(lease_id)

    def adopt(self, tenant: TenantId, lease_id: Id) -> None:
        """Go on counting what was counted before, here or elsewhere, whatever the limit."""
        held = self._held[tenant]
        if lease_id not in held:
            held.add(lease_id)
            self._adopted.append((tenant, lease_id))
            self._changed.set()

    def hand_on(self, tenant: TenantId, lease_id: Id) -> None:
        """Leave the counting to another instance."""
        held = self._held.get(tenant)
        if held is not None:
            held.discard(lease_id)
            if not held:
                del self._held[tenant]

    def release(self, tenant: TenantId, lease_id: Id) -> None:
        """It is over."""
        if lease_id in self._held.get(tenant, ()):
            self.hand_on(tenant, lease_id)
            self._to_release.append((tenant, lease_id))
            self._changed.set()

    async def run(self) -> None:
        """Renew what is held and give back what is not, until cancelled."""
        while True:
            changed = await self._wait()
            try:
                await (self._tell_changes() if changed else self._renew())
            except DependencyDown as error:
                log.warning_limited(
                    "tenant_leases_not_renewed",
                    key=self._what,
                    every_seconds=10,
                    error=error.message,
                )

    async def _wait(self) -> bool:
        """Until it is time to renew everything, or there is something to tell."""
        try:
            async with asyncio.timeout(TTL_SECONDS / _RENEWALS_IN_TTL):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._changed.clear()
        return True

    async def _tell_changes(self) -> None:
        over, self._to_release = self._to_release, []
        adopted, self._adopted = self._adopted, []
        for tenant, lease_id in over:
            await self._limits.release(self._what, tenant, lease_id)
        for tenant, lease_id in adopted:
            if lease_id in self._held.get(tenant, ()):
                await self._keep(tenant, [lease_id])

    async def _renew(self) -> None:
        for tenant, held in list(self._held.items()):
            await self._keep(tenant, list(held))

    async def _keep(self, tenant: TenantId, leases: list[Id]) -> None:
        await self._limits.keep(self._what, tenant, leases, int(TTL_SECONDS * 1000))
