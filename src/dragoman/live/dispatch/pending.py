"""Jobs that wait for a slot, and how they are called when one may be free."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import merge
from itertools import islice
from math import inf
from typing import Generic, Protocol, TypeVar

from dragoman.clock import Clock
from dragoman.errors import DragomanError
from dragoman.ids import JobId, TenantId
from dragoman.live.dispatch.job import Demand, Job
from dragoman.live.dispatch.refusals import NEVER_WAITS
from dragoman.live.protocol import WaitingView
from dragoman.live.snapshot import Pair


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


class TenantQueue(Generic[W]):
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
        self._pairs: OrderedDict[Pair, OrderedDict[TenantId, TenantQueue[W]]] = OrderedDict()
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
        tenants.setdefault(waiter.tenant, TenantQueue()).join(waiter, self._joined)
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


TURN_SECONDS = 0.002
"""How long one turn may call jobs; the rest have the next turn."""


class PendingQueue:
    """Two rooms: live jobs wait for a while and are called first, batch jobs wait for ever."""

    def __init__(
        self,
        look: Callable[[Job, float], None],
        *,
        pending_seconds: float,
        pending_per_pair: int,
        clock: Clock,
    ) -> None:
        """look lets a job look for a slot."""
        self._look = look
        self._pending_seconds = pending_seconds
        self._clock = clock
        self._live = WaitingRoom[Job](pending_per_pair)
        self._batch = WaitingRoom[Job](None)
        self._slots = 0.0
        """How many jobs may be served before there is nothing left to find."""
        self._left = 0.0
        """Slots that came while every job that waits for them was looking."""
        self._call_planned: asyncio.Handle | None = None
        self._unmet: set[Demand] = set()
        """Demands that found every slot taken since the last slot came free."""
        self._probes: set[JobId] = set()
        """Jobs that look on behalf of all of their demand, where the ledger answers later."""
        self.count = 0
        """How many jobs wait."""
        self.wakes = 0
        """How often slots or nodes came. A job that looked before the last time may have missed
        one."""

    def __len__(self) -> int:
        return self.count

    def has_line(self, job: Job) -> bool:
        """Whether jobs wait for the same that the job may wait for, too."""
        if not self.count:
            return False
        if job.is_batch:
            return self._batch.has_line(job.demand)
        return job.may_wait and self._live.has_line(job.demand)

    def may_wait(self, job: Job, error: DragomanError) -> bool:
        """Whether waiting is allowed and can help."""
        if job.is_batch:
            return job.may_wait or not isinstance(error, NEVER_WAITS)
        return job.may_wait and not isinstance(error, NEVER_WAITS)

    def join(self, job: Job, error: DragomanError | None, now: float) -> bool:
        """Stand in line, or keep the place; False when the pair's share of the room is full."""
        room = self._batch if job.is_batch else self._live
        if not room.join(job):
            return False
        self.count = len(self._live) + len(self._batch)
        if room is self._live and job.pending_until == inf:
            job.pending_until = now + self._pending_seconds
        is_new, job.waiting = not job.waiting, True
        self._probes.discard(job.job_id)
        if error is not None:
            job.refusal = error
            self._unmet.add(job.demand)
        # What came while it looked is no news for the others: if it were, jobs that look at the
        # same time would have each other look for ever.
        if is_new and self.wakes != job.wakes:
            self._let_try(self.wakes - job.wakes)
        elif self._left:
            self._let_try(self._left)
        return True

    def leave(self, job: Job) -> None:
        """The job waits no more."""
        job.waiting = False
        (self._batch if job.is_batch else self._live).leave(job.job_id)
        self.count = len(self._live) + len(self._batch)
        self._probed(job)

    def served(self, job: Job) -> None:
        """The job has its slot: it leaves, and its tenant and its pair go to the back."""
        job.waiting = False
        (self._batch if job.is_batch else self._live).served(job)
        self.count = len(self._live) + len(self._batch)
        self._probed(job)

    def _probed(self, job: Job) -> None:
        """A job that looked on behalf of others waits no more: the next one looks."""
        if job.job_id in self._probes:
            self._probes.discard(job.job_id)
            if self.count:
                self._let_try(inf)

    def wake(self, slots: float = inf) -> None:
        """Slots or nodes came: let those that wait try again, as many as there are slots."""
        self.wakes += 1
        if self.count:
            self._let_try(slots)

    def _let_try(self, slots: float) -> None:
        self._slots += slots
        self._left = 0.0
        self._unmet.clear()
        if self._call_planned is None:
            self._call_planned = asyncio.get_running_loop().call_soon(self._call)

    def view(self, job: Job) -> WaitingView:
        """The line that a waiting job stands in, and why."""
        room = self._batch if job.is_batch else self._live
        return WaitingView(
            pool=job.requirement.shown,
            in_line=room.length(job.requirement.pair),
            code=job.refusal.code if job.refusal else None,
            message=job.refusal.message if job.refusal else None,
        )

    def waiting_batch(self) -> list[Job]:
        """Batch jobs in line."""
        return list(self._batch)

    def stop(self) -> None:
        if self._call_planned is not None:
            self._call_planned.cancel()
            self._call_planned = None

    def _call(self) -> None:
        self._call_planned = None
        now = began = self._clock.monotonic()
        for room in (self._live, self._batch):
            while self._slots > 0:
                job = next((job for job in room.line(self._unmet) if not job.in_flight), None)
                if job is None:
                    break
                if now - began > TURN_SECONDS:
                    self._call_planned = asyncio.get_running_loop().call_soon(self._call)
                    return
                self._slots -= 1
                self._look(job, now)
                if job.waiting and not job.in_flight:
                    # It found none: the slot, if there is one, is for another demand.
                    self._slots += 1
                    self._unmet.add(job.demand)
                elif job.in_flight and self._slots == inf:
                    # How many slots there are is not known: one job looks, and the others after it.
                    self._unmet.add(job.demand)
                    self._probes.add(job.job_id)
                now = self._clock.monotonic()
        if self._slots != inf and any(job.in_flight for job in (*self._live, *self._batch)):
            self._left = self._slots
        self._slots = 0.0
