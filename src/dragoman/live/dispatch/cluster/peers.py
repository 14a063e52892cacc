"""What other instances say about jobs and attempts, taken to those that this instance has."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import msgspec

from dragoman.clock import Clock
from dragoman.errors import DependencyDown
from dragoman.ids import AttemptId, InstanceId, JobId, NodeId
from dragoman.live.cluster import AssignNote, ResultNote, TryAgainNote
from dragoman.live.dispatch.cluster.ledger import ClusterLedger
from dragoman.live.dispatch.cluster.ports import PeerPort
from dragoman.live.dispatch.cluster.remote import RemoteAttempts
from dragoman.live.dispatch.cluster.stored_jobs import take_end
from dragoman.live.dispatch.cluster.watcher import RemoteJobWatcher
from dragoman.live.dispatch.driver import JobDriver
from dragoman.live.dispatch.job import Job, Progress
from dragoman.live.dispatch.telemetry import progressed
from dragoman.live.ledger import Ending, Owner
from dragoman.live.protocol import (
    AttemptState,
    ErrorInfo,
    JobPartial,
    JobResult,
    RunningJob,
)
from dragoman.live.shared import records as r


class PeerMessages:
    """Takes what other instances say to the jobs that are driven or waited for here."""

    def __init__(
        self,
        ledger: ClusterLedger,
        driver: JobDriver,
        remote: RemoteAttempts,
        watcher: RemoteJobWatcher,
        peers: PeerPort,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._ledger = ledger
        self._driver = driver
        self._remote = remote
        self._watcher = watcher
        self._peers = peers
        self._clock = clock
        self._spawn = spawn
        remote.on_step, remote.on_partial = self.progressed, self.partial
        remote.on_ended = self.ended

    # --- of nodes here --------------------------------------------------------------------------

    def assign_at_once(self, note: AssignNote, age_seconds: float) -> bool:
        """The same, where nothing must be read before; False when something must."""
        return self._remote.assign_at_once(note, age_seconds)

    async def assign(self, note: AssignNote, age_seconds: float) -> None:
        """A node here is to be told of an attempt."""
        await self._remote.assign(note, age_seconds)

    def cancel(self, running: RunningJob, node_id: NodeId, owner: Owner, reason: str) -> None:
        """A node here is to stop an attempt."""
        self._remote.cancel(running, node_id, owner, reason)

    # --- of jobs driven here --------------------------------------------------------------------

    async def result(self, note: ResultNote) -> None:
        """An attempt on another instance's node is over; its slot is free."""
        if self.result_at_once(note):
            return
        job = self._driver.attempts.get(note.attempt_id)
        kept = await self._ledger.shared.look(
            note.cell, note.attempt_id, tombstone_ms=self._ledger.terms.tombstone_ms
        )
        if not isinstance(kept, r.StoredAttempt) or kept.state is not AttemptState.FINISHED:
            return
        if job is None or self._driver.attempts.get(note.attempt_id) is not job or job.in_flight:
            return
        self._take_result(job, note, kept.output, kept.error)

    def result_at_once(self, note: ResultNote) -> bool:
        """Take in a result that the note brings; False when it must be read."""
        job = self._driver.attempts.get(note.attempt_id)
        if job is None or job.in_flight:
            return True  # It went on without this attempt; the sweep sees to what the cell keeps.
        if note.output is None:
            return False
        self._take_result(job, note, note.output, note.error)
        return True

    def _take_result(
        self, job: Job, note: ResultNote, output: JobResult | None, error: ErrorInfo | None
    ) -> None:
        if job.seat is not None:
            # Wherever its node was when it was told, another instance has freed the slot.
            job.seat.owner = msgspec.structs.replace(job.seat.owner, instance_id=InstanceId(""))
        # By the driver's own clock: how long after its dispatch each step was taken is all that
        # clocks of two machines agree on.
        if note.accepted_after_ms >= 0:
            job.accepted_ms = job.dispatched_ms + note.accepted_after_ms
        if note.running_after_ms >= 0:
            job.running_ms = job.dispatched_ms + note.running_after_ms
        succeeded = output is not None and output.success
        ending = Ending(note.outcome, output if succeeded else None, error)
        self._driver.finish(job, ending, self._clock.monotonic())

    def try_again(self, note: TryAgainNote) -> None:
        """A job lost its attempt."""
        job = self._driver.attempts.get(note.attempt_id)
        if job is None or job.in_flight:
            return
        now = self._clock.monotonic()
        if note.preempted:
            self._driver.gives_way(job, self._ledger.preempted(job, now), now)
        else:
            self._driver.lost(job, now)

    def inherited(self, job_id: JobId, attempt_id: AttemptId) -> None:
        """A slot passed to a job that waits for it."""
        job = self._driver.jobs.get(job_id)
        if job is not None:
            self._ledger.inherit(job, attempt_id, self._driver.inherited)

    async def ended(self, job_id: JobId) -> None:
        """A job has its end, by another instance."""
        await self._watcher.told(job_id)
        job = self._driver.jobs.get(job_id)
        if job is None or job.in_flight:
            return  # What it does next finds out.
        stored = await self._ledger.shared.read(job_id)
        if stored is not None and stored.outcome is not None:
            self._driver.ended_elsewhere(
                job, partial(take_end, job, stored), self._clock.monotonic()
            )

    def freed(self, slots: int) -> None:
        """Slots came free: jobs that wait here may have them."""
        self._driver.pending.wake(slots)

    # --- on the way -----------------------------------------------------------------------------

    def progressed(self, running: RunningJob, progress: Progress) -> None:
        """An attempt took a step."""
        job = self._driver.attempts.get(running.attempt_id)
        if job is not None:
            progressed(job, progress)
            return
        job = self._watcher.jobs.get(running.job_id)
        if job is not None and job.on_progress is not None:
            job.on_progress(progress, running.job_id)

    def partial(self, message: JobPartial) -> None:
        """What a node has recognised so far."""
        job = self._driver.attempts.get(message.attempt_id)
        if job is None:
            job = self._watcher.jobs.get(message.job_id)
        if job is None:
            return
        if job.owner is not None:
            job.owner.job_partial(job, message)
        elif job.on_partial is not None:
            job.on_partial(message)

    def watched(
        self, job_id: JobId, attempt_id: AttemptId | None, watcher: InstanceId, steps: bool
    ) -> None:
        """Another instance wants to hear how a job goes on, and of its end."""
        job = self._driver.jobs.get(job_id)
        if job is None:
            if attempt_id is not None:
                self._remote.watched(attempt_id, watcher, steps)
            self._spawn(self._tell_if_ended(job_id, watcher))
            return
        self._driver.expect(job, lambda job: self._peers.ended(job_id, watcher))
        job.on_partial = partial(self._peers.partial, to=watcher)
        if steps:
            job.on_progress = partial(self._step, job, watcher)

    async def _tell_if_ended(self, job_id: JobId, watcher: InstanceId) -> None:
        try:
            stored = await self._ledger.shared.read(job_id)
        except DependencyDown:
            return
        if stored is not None and stored.outcome is not None:
            self._peers.ended(job_id, watcher)

    def _step(self, job: Job, watcher: InstanceId, progress: Progress, job_id: JobId) -> None:
        self._peers.progressed(RunningJob(job_id, job.attempt_id), watcher, progress)
