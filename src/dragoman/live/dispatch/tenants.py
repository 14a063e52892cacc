"""How much of a server one tenant may use at a time."""

from __future__ import annotations

from collections import Counter

from dragoman.errors import RateLimited
from dragoman.ids import TenantId

_RETRY_MS = 1000


class TenantJobs:
    """Counts each tenant's jobs that have not ended and that this instance drives."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        """0: as many as they like."""
        self._jobs: Counter[TenantId] = Counter()

    def __getitem__(self, tenant: TenantId) -> int:
        return self._jobs[tenant]

    def entered(self, tenant: TenantId) -> None:
        self._jobs[tenant] += 1

    def left(self, tenant: TenantId) -> None:
        self._jobs[tenant] -= 1
        if not self._jobs[tenant]:
            del self._jobs[tenant]

    def refusal(self, tenant: TenantId) -> RateLimited | None:
        """Why the tenant may not have another job now; None when it may."""
        if not self._limit or self._jobs[tenant] < self._limit:
            return None
        return RateLimited(
            f"Tenant {tenant!r} has {self._limit} jobs that have not ended, as many as it may "
            "(limits.max_inflight_per_tenant); try again when one has.",
            retry_after_ms=_RETRY_MS,
        )
