"""How much of a server, or of all of them, one tenant may use at a time."""

from __future__ import annotations

from collections import Counter

from dragoman.errors import DependencyDown, RateLimited
from dragoman.ids import JobId, TenantId
from dragoman.live.dispatch.ports import TenantCounts

_RETRY_MS = 1000


class TenantJobs:
    """Counts each tenant's jobs that have not ended and that this instance drives.

    Where several instances count together, each counts the jobs it drives, and the limit is that
    of their sum.
    """

    def __init__(self, limit: int, together: TenantCounts[JobId] | None = None) -> None:
        self._limit = limit
        self.limited = limit > 0
        """Otherwise they may have as many as they like."""
        self._together = together if self.limited else None
        self._jobs: Counter[TenantId] = Counter()

    def __getitem__(self, tenant: TenantId) -> int:
        return self._jobs[tenant]

    def entered(self, tenant: TenantId, job_id: JobId) -> None:
        """This instance drives the job from now on."""
        self._jobs[tenant] += 1
        if self._together is not None:
            self._together.adopt(tenant, job_id)

    def ended(self, tenant: TenantId, job_id: JobId) -> None:
        self._leave(tenant)
        if self._together is not None:
            self._together.release(tenant, job_id)

    def abandoned(self, tenant: TenantId, job_id: JobId) -> None:
        """Another instance drives the job, or will."""
        self._leave(tenant)
        if self._together is not None:
            self._together.hand_on(tenant, job_id)

    async def refusal(self, tenant: TenantId, job_id: JobId) -> RateLimited | DependencyDown | None:
        """Why the tenant may not have this job too; None when it may."""
        if self._together is not None:
            try:
                await self._together.acquire(tenant, job_id)
            except (RateLimited, DependencyDown) as error:
                return error
            return None
        return self.refusal_now(tenant)

    def refusal_now(self, tenant: TenantId) -> RateLimited | None:
        """Why the tenant may not have a job more, as far as this instance counts."""
        if not self.limited or self._jobs[tenant] < self._limit:
            return None
        return RateLimited(
            f"Tenant {tenant!r} has {self._limit} jobs that have not ended, as many as it may "
            "(limits.max_inflight_per_tenant); try again when one has.",
            retry_after_ms=_RETRY_MS,
        )

    def _leave(self, tenant: TenantId) -> None:
        self._jobs[tenant] -= 1
        if not self._jobs[tenant]:
            del self._jobs[tenant]
