"""Jobs that callers here wait for and that other instances drive."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import islice

from dragoman.errors import DependencyDown
from dragoman.ids import InstanceId, JobId
from dragoman.live.dispatch.cluster.ledger import ClusterLedger
from dragoman.live.dispatch.cluster.ports import PeerPort
from dragoman.live.dispatch.cluster.remote import RemoteAttempts
from dragoman.live.dispatch.cluster.stored_jobs import take_end
from dragoman.live.dispatch.driver import FORGOTTEN
from dragoman.live.dispatch.job import Job, Step
from dragoman.live.protocol import Outcome
from dragoman.live.shared import records as r

BATCH = 500
"""Jobs that are asked for at a time."""


class RemoteJobWatcher:
    """Finds out that a job has ended: by looking now and then, at once when an instance tells."""

    def __init__(
        self,
        ledger: ClusterLedger,
        peers: PeerPort,
        remote: RemoteAttempts,
        instance_id: InstanceId,
    ) -> None:
        self._ledger = ledger
        self._peers = peers
        self._remote = remote
        self._instance_id = instance_id
        self.jobs: dict[JobId, Job] = {}

    def __len__(self) -> int:
        return len(self.jobs)

    def watch(self, job: Job) -> Job:
        """Tell the job's waiters of its end; the job that stands for it here from now on."""
        known = self.jobs.get(job.job_id)
        if known is not None:
            known.on_end = [*(known.on_end or ()), *(job.on_end or ())]
            known.on_partial = job.on_partial or known.on_partial
            known.on_progress = job.on_progress or known.on_progress
            job.on_end = job.on_partial = job.on_progress = None
            job = known
        self.jobs[job.job_id] = job
        if job.driver_instance:
            self._ask(job)
        return job

    def _ask(self, job: Job) -> None:
        """Have the job's driver tell of its end, and of what happens on the way."""
        steps = job.on_progress is not None
        self._peers.watch(job.job_id, job.named or None, job.driver_instance, steps=steps)

    async def _ask_at_node(self, job: Job) -> None:
        """Have the instance of the attempt's node tell, too: the job's driver may be gone."""
        with suppress(DependencyDown):
            held = await self._ledger.shared.look(job.named_cell, job.named, tombstone_ms=0)
            if not isinstance(held, r.StoredAttempt):
                return
            node_at, steps = held.owner.instance_id, job.on_progress is not None
            if node_at == self._instance_id:
                self._remote.watch_here(held.attempt_id, steps)
            elif node_at != job.driver_instance:
                self._peers.watch(job.job_id, held.attempt_id, node_at, steps=steps)

    async def look(self) -> None:
        """See which of the jobs have ended."""
        job_ids = iter(list(self.jobs))
        while batch := list(islice(job_ids, BATCH)):
            await asyncio.gather(*map(self.told, batch))

    async def told(self, job_id: JobId, *, ask: bool = False) -> None:
        """The job may have ended; with `ask`, its driver is asked to tell when it has."""
        if job_id not in self.jobs:
            return
        try:
            stored = await self._ledger.shared.read(job_id)
        except DependencyDown:
            return
        job = self.jobs.get(job_id)
        if job is None:
            return
        if stored is None:
            job.step = Step.NONE
            job.outcome, job.error = Outcome.FAILED, FORGOTTEN
        elif stored.outcome is None:
            handed_on = stored.instance_id != job.driver_instance
            is_new = stored.attempt_id != job.named
            job.named, job.named_cell = stored.attempt_id, stored.cell
            job.driver_instance = stored.instance_id
            if ask or handed_on:
                self._ask(job)
            if (ask or is_new) and (job.on_partial is not None or job.on_progress is not None):
                await self._ask_at_node(job)
            return
        else:
            take_end(job, stored)
        self.ended(job)

    def ended(self, job: Job) -> None:
        """Tell those who wait, once."""
        self.jobs.pop(job.job_id, None)
        waiting, job.on_end = job.on_end, None
        job.on_partial = job.on_progress = None
        for on_end in waiting or ():
            on_end(job)
