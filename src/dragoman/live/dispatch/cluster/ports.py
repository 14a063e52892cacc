"""What an instance needs of others, and tells them of jobs and attempts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

import msgspec

from dragoman.ids import AttemptId, InstanceId, JobId, NodeId
from dragoman.live.cluster import AssignNote, ResultNote
from dragoman.live.dispatch.job import Progress
from dragoman.live.ledger import Owner
from dragoman.live.protocol import JobPartial, RunningJob


class Share(msgspec.Struct, frozen=True):
    """One instance's part of what several look after."""

    rank: int = 0
    count: int = 1

    def of(self, numbers: Sequence[int]) -> Sequence[int]:
        """The numbers that are this instance's; every number belongs to an instance."""
        return [number for number in numbers if number % self.count == self.rank]


class PeerPort(Protocol):
    """Reaches other instances: the nodes connected to them, and the jobs they drive.

    The sender does not wait, and a message may get lost: the sweep finds what was missed.
    """

    def present(self) -> Collection[InstanceId]:
        """The other instances that are there."""
        ...

    def assign(self, note: AssignNote, to: InstanceId) -> None:
        """Have a node told of its attempt; it has its time to acknowledge, told or not."""
        ...

    def result(self, note: ResultNote, to: InstanceId) -> None:
        """An attempt of a job that the instance drives is over."""
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

    def ended(self, job_id: JobId, to: InstanceId) -> None:
        """A job has its end."""
        ...

    def try_again(
        self, job_id: JobId, attempt_id: AttemptId, to: InstanceId, *, preempted: bool = False
    ) -> None:
        """A job that the instance drives lost this attempt."""
        ...

    def inherited(self, job_id: JobId, attempt_id: AttemptId, to: InstanceId) -> None:
        """A slot passed to a job that the instance drives."""
        ...

    def freed(self, slots: int, to: InstanceId) -> None:
        """Slots came free that the instance waits for."""
        ...

    def progressed(self, running: RunningJob, to: InstanceId, progress: Progress) -> None:
        """An attempt took a step."""
        ...

    def partial(self, partial: JobPartial, to: InstanceId) -> None:
        """What a node has recognised so far."""
        ...

    def watch(
        self, job_id: JobId, attempt_id: AttemptId | None, to: InstanceId, *, steps: bool
    ) -> None:
        """Have an instance tell us of a job's partials and its end, and of its steps if asked."""
        ...
