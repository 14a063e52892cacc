"""The waiting room: jobs that fit the fleet but found every slot taken."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Generic, Protocol, TypeVar

from dragoman.ids import JobId, NodeId, TenantId
from dragoman.live.snapshot import Pair, Requirement

Demand = tuple[Requirement, NodeId | None, TenantId | None]
"""What a job asks for, the node it names, and whose job it is if it names one: a node may take
jobs of one tenant only. Jobs of one demand find the same slots taken."""


class Waiter(Protocol):
    """A job in line."""

    @property
    def job_id(self) -> JobId: ...
    @property
    def tenant(self) -> TenantId: ...
    @property
    def demand(self) -> Demand: ...


W = TypeVar("W", bound=Waiter)
T = TypeVar("T")


def in_turn(lines: Iterable[Iterator[T]]) -> Iterator[T]:
    """The first of each line, then the second of each, until all lines are empty."""
    while lines:
        longer = []
        for line in lines:
            for one in islice(line, 1):
                yield one
                longer.append(line)
        lines = longer


class Queue(Generic[W]):
    """One tenant's jobs of one pair: first in, first out, past demands no node can meet now."""

    def __init__(self) -> None:
        self._demands: dict[Demand, OrderedDict[JobId, tuple[int, W]]] = {}

    def __bool__(self) -> bool:
        return bool(self._demands)

    def join(self, waiter: W, number: int) -> None:
        self._demands.setdefault(waiter.demand, OrderedDict())[waiter.job_id] = (number, waiter)

    def leave(self, waiter: W) -> None:
        same = self._demands[waiter.demand]
        del same[waiter.job_id]
        if not same:
            del self._demands[waiter.demand]

    def line(self, without: Collection[Demand]) -> Iterator[W]:
        """Those whose demand can be met, the one that has waited longest first."""
        same = [line for demand, line in self._demands.items() if demand not in without]
        for _, waiter in merge(*(line.values() for line in same), key=lambda place: place[0]):
            yield waiter


class WaitingRoom(Generic[W]):
    """A bounded line for each pair: in order within a tenant, tenants in turn, pairs in turn."""

    def __init__(self, limit_per_pair: int | None) -> None:
        self._limit = limit_per_pair
        self._pairs: OrderedDict[Pair, OrderedDict[TenantId, Queue[W]]] = OrderedDict()
        self._waiting: dict[JobId, W] = {}
        self._by_pair: dict[Pair, int] = {}
        self._by_demand: dict[Demand, int] = {}
        self._joined = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self._waiting

    def __iter__(self) -> Iterator[W]:
        return iter(self._waiting.values())

    def join(self, waiter: W) -> bool:
        """Stand in line, or keep one's place; False when the pair's share of the room is full."""
        if waiter.job_id in self._waiting:
            return True
        pair = waiter.demand[0].pair
        if self._limit is not None and self._by_pair.get(pair, 0) >= self._limit:
            return False
        tenants = self._pairs.setdefault(pair, OrderedDict())
        self._joined += 1
        tenants.setdefault(waiter.tenant, Queue()).join(waiter, self._joined)
        self._waiting[waiter.job_id] = waiter
        self._by_pair[pair] = self._by_pair.get(pair, 0) + 1
        self._by_demand[waiter.demand] = self._by_demand.get(waiter.demand, 0) + 1
        return True

    def length(self, pair: Pair) -> int:
        """How many wait for a pair."""
        return self._by_pair.get(pair, 0)

    def has_line(self, demand: Demand) -> bool:
        """Whether a job waits for the same."""
        return demand in self._by_demand

    def line(self, without: Collection[Demand] = ()) -> Iterator[W]:
        """Whose turn it is, then whose it will be, among those whose demand can be met.

        No job may join or leave while the line is looked at.
        """
        return in_turn(
            in_turn(queue.line(without) for queue in tenants.values())
            for tenants in self._pairs.values()
        )

    def served(self, waiter: W) -> None:
        """The waiter got its slot: it leaves, and its tenant and its pair go to the back."""
        if waiter.job_id not in self._waiting:
            return
        self.leave(waiter.job_id)
        pair = waiter.demand[0].pair
        tenants = self._pairs.get(pair)
        if tenants is not None:
            self._pairs.move_to_end(pair)
            if waiter.tenant in tenants:
                tenants.move_to_end(waiter.tenant)

    def leave(self, job_id: JobId) -> None:
        """Give up waiting, wherever in the line."""
        waiter = self._waiting.pop(job_id, None)
        if waiter is None:
            return
        pair = waiter.demand[0].pair
        tenants = self._pairs[pair]
        queue = tenants[waiter.tenant]
        queue.leave(waiter)
        if not queue:
            del tenants[waiter.tenant]
        if not tenants:
            del self._pairs[pair]
        self._by_pair[pair] -= 1
        if not self._by_pair[pair]:
            del self._by_pair[pair]
        self._by_demand[waiter.demand] -= 1
        if not self._by_demand[waiter.demand]:
            del self._by_demand[waiter.demand]
