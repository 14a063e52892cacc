"""What dispatch needs of its neighbours, so that it need not know them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from dragoman.ids import AttemptId, InstanceId, JobId, NodeId, TenantId
from dragoman.live.dispatch.orders import Progress
from dragoman.live.ledger import Granted, Owner
from dragoman.live.protocol import JobPartial, RunningJob, SchedulerToNode

Id = TypeVar("Id", contravariant=True)


class NodePort(Protocol):
    """Reaches nodes of this instance."""

    def send(self, node_id: NodeId, owner: Owner, message: SchedulerToNode) -> bool:
        """Say something over this very connection; False when it is gone."""
        ...

    def report(self, cells: Iterable[int]) -> None:
        """These cells lost their memory: have their nodes say what they run."""
        ...


class TenantCounts(Protocol[Id]):
    """Counts what each tenant has of something, by its id, over all instances."""

    async def acquire(self, tenant: TenantId, counted: Id) -> None:
        """Count a new one; RateLimited when the tenant has as many as it may."""
        ...

    def adopt(self, tenant: TenantId, counted: Id) -> None:
        """Go on counting one that was counted before, here or elsewhere."""
        ...

    def hand_on(self, tenant: TenantId, counted: Id) -> None:
        """Leave the counting to another instance."""
        ...

    def release(self, tenant: TenantId, counted: Id) -> None:
        """It is over."""
        ...


class PeerPort(Protocol):
    """Reaches other instances: the nodes connected to them, and the jobs they drive.

    But for `assign`, the sender does not wait and it may get lost: the sweep finds what was missed.
    """

    async def assign(
        self, running: RunningJob, granted: Granted, *, watched: bool, traceparent: str | None
    ) -> bool:
        """Have a node told of its attempt; False when its instance surely was not reached."""
        ...

    def cancel(self, running: RunningJob, node_id: NodeId, owner: Owner, reason: str) -> None:
        """Have a node told to stop an attempt."""
        ...

    def ask_report(self, node_id: NodeId, owner: Owner) -> None:
        """Have a node say now what it runs."""
        ...

    def ask_cells(self, cells: Iterable[int]) -> None:
        """Have every node of these cells say what it runs."""
        ...

    def ended(self, job_id: JobId, driver: InstanceId) -> None:
        """A job that another instance drives has its end."""
        ...

    def try_again(self, job_id: JobId, driver: InstanceId) -> None:
        """A job that another instance drives needs another attempt."""
        ...

    def inherited(self, job_id: JobId, attempt_id: AttemptId, driver: InstanceId) -> None:
        """A slot passed to a job that another instance drives."""
        ...

    def freed(self, slots: int) -> None:
        """Slots came free; others may have jobs that wait for one."""
        ...

    def progressed(self, running: RunningJob, driver: InstanceId, progress: Progress) -> None:
        """An attempt took a step that its driver watches."""
        ...

    def partial(self, partial: JobPartial, driver: InstanceId) -> None:
        """What a node has recognised so far, for the job's driver."""
        ...

    def watch(
        self, job_id: JobId, attempt_id: AttemptId | None, to: InstanceId, *, steps: bool
    ) -> None:
        """Have an instance tell us of a job's partials, and of its steps if asked to."""
        ...
