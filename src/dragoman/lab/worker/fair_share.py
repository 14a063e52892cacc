"""Which runs a worker's free places go to: shared between tenants, then between a tenant's runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heapify, heapreplace

import msgspec

from dragoman.ids import TenantId
from dragoman.lab.model import RunId


class RunClaim(msgspec.Struct, frozen=True):
    """What a run has of a worker, and what it could take."""

    run_id: RunId
    tenant: TenantId
    waiting: int
    """Items that the worker may take."""
    in_work: int = 0
    """Items that the worker works on."""
    weight: float = 1.0
    tenant_weight: float = 1.0
    turns: float = 0.0
    """How often the run was given a place so far; decides between runs that have equally few."""
    tenant_turns: float = 0.0


def share_out(room: int, claims: Sequence[RunClaim]) -> dict[RunId, int]:
    """How many of the free places each run gets.

    A place goes to the tenant that has the fewest for its weight, and there to the run that has the
    fewest for its weight; among equals, to the one that had the fewest turns for its weight. What
    counts is places, not items: a run of slow items gets no more than one of quick items. A run
    that cannot use its share leaves it to the others, so no place stays empty while items wait.
    """
    tenants = [_Tenant(position, ours) for position, ours in enumerate(_by_tenant(claims))]
    given: Counter[RunId] = Counter()
    heapify(tenants)
    for _ in range(min(room, sum(tenant.waiting for tenant in tenants))):
        tenant = tenants[0]
        given[tenant.take_place()] += 1
        heapreplace(tenants, tenant)
    return dict(given)


def _by_tenant(claims: Iterable[RunClaim]) -> list[list[RunClaim]]:
    tenants: dict[TenantId, list[RunClaim]] = {}
    for claim in claims:
        tenants.setdefault(claim.tenant, []).append(claim)
    return list(tenants.values())


class _Standing:
    """How much a tenant or a run has; the one with the least is first in a heap."""

    def __init__(
        self, position: int, waiting: int, in_work: int, turns: float, weight: float
    ) -> None:
        self._position = position
        self.waiting = waiting
        self._in_work = in_work
        self._turns = turns
        self._weight = weight

    def __lt__(self, other: _Standing) -> bool:
        return self._order < other._order

    @property
    def _order(self) -> tuple[bool, float, float, int]:
        places, turns = self._in_work / self._weight, self._turns / self._weight
        return not self.waiting, places, turns, self._position

    def count_place(self) -> None:
        self.waiting -= 1
        self._in_work += 1
        self._turns += 1


class _Run(_Standing):
    def __init__(self, position: int, claim: RunClaim) -> None:
        super().__init__(position, claim.waiting, claim.in_work, claim.turns, claim.weight)
        self.run_id = claim.run_id


class _Tenant(_Standing):
    """A tenant with its runs."""

    def __init__(self, position: int, claims: Sequence[RunClaim]) -> None:
        super().__init__(
            position,
            sum(claim.waiting for claim in claims),
            sum(claim.in_work for claim in claims),
            claims[0].tenant_turns,
            claims[0].tenant_weight,
        )
        self._runs = [_Run(position, claim) for position, claim in enumerate(claims)]
        heapify(self._runs)

    def take_place(self) -> RunId:
        """Give a place to the run whose turn it is."""
        run = self._runs[0]
        run.count_place()
        self.count_place()
        heapreplace(self._runs, run)
        return run.run_id
