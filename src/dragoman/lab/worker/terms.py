"""What a worker goes by."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dragoman.lab.budgets import Quota


class Terms(msgspec.Struct, frozen=True):
    """What a worker goes by."""

    capacity: int
    """Items it works on at once, of all runs together."""
    lease_ms: int
    tick_seconds: float
    """How often it looks for work, and for ends of work, that it was not told of."""
    any_run: bool = True
    """Whether it looks for work of runs that it was never told of."""
    tenant_weights: Mapping[str, float] = {}
    """How much a tenant counts beside others; 1 for those that are not here."""
    tenant_limits: Quota = Quota()
    """The limits of tenants that have none of their own."""
