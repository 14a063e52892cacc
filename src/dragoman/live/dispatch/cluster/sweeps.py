"""What goes on in the background: claims are renewed, and what dead instances left is taken up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Set
from math import inf
from typing import Any

import msgspec

from dragoman.clock import Clock
from dragoman.errors import DependencyDown
from dragoman.ids import JOB_SHARDS, InstanceId, JobId
from dragoman.live.dispatch.cluster.ledger import ClusterLedger
from dragoman.live.dispatch.cluster.ports import PeerPort, Share
from dragoman.live.dispatch.cluster.remote import ClusterNodes, RemoteAttempts
from dragoman.live.dispatch.cluster.stored_jobs import take_end
from dragoman.live.dispatch.cluster.watcher import RemoteJobWatcher
from dragoman.live.dispatch.driver import LOST, NO_ACK, OUT_OF_TIME, JobDriver
from dragoman.live.dispatch.job import Job, Step, Stop
from dragoman.live.ledger import Ending, NodeLost, PastAttempt, Sender
from dragoman.live.protocol import (
    AttemptState,
    Command,
    JobCancel,
    JobClass,
    NodeControl,
    Outcome,
)
from dragoman.live.shared import records as r
from dragoman.observability import LimitWatch, get_logger

log = get_logger("dragoman.dispatch")

SWEEP_SECONDS = 0.5
SWEEP_LIMIT = 200
"""How much of a shard or a cell one pass looks into; the rest stays due."""

SHARD_TURNS = 2
"""A pass looks into half of the shards: a job that was left is found within a second."""

EVERYTHING_EVERY = 20
"""Passes between two that look at what other instances see to, too: one may be gone unnoticed."""

TOGETHER = 32
"""Shards or cells that are asked at a time."""

_LIVE = (AttemptState.DISPATCHED, AttemptState.ACCEPTED, AttemptState.RUNNING)
_STEPS = {
    AttemptState.DISPATCHED: Step.DISPATCHED,
    AttemptState.ACCEPTED: Step.ACCEPTED,
    AttemptState.RUNNING: Step.RUNNING,
}

Revive = Callable[[r.OpenWork, float], Job]


class ClusterSweeps:
    """Loops that never stop while the instance lives."""

    def __init__(
        self,
        *,
        ledger: ClusterLedger,
        driver: JobDriver,
        nodes: ClusterNodes,
        remote: RemoteAttempts,
        watcher: RemoteJobWatcher,
        peers: PeerPort,
        share: Callable[[], Share],
        revive: Revive,
        present: Callable[[], Collection[InstanceId]],
        own_cells: Callable[[], Set[int]],
        instance_id: InstanceId,
        watch: LimitWatch,
        clock: Clock,
    ) -> None:
        """revive makes a job that can be driven of a stored one, at a time; present names the
        other instances, own_cells the cells that have nodes of this one."""
        self._ledger = ledger
        self._shared = ledger.shared
        self._driver = driver
        self._nodes = nodes
        self._remote = remote
        self._watcher = watcher
        self._peers = peers
        self._share = share
        self._revive = revive
        self._present = present
        self._own_cells = own_cells
        self._instance_id = instance_id
        self._watch = watch
        self._clock = clock
        self._passes = 0

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._every(SWEEP_SECONDS, self.sweep))
            loops.create_task(self._every(self._ledger.terms.claim_ms / 3000, self.renew))
            loops.create_task(self._every(1.0, self._look_around))

    async def _every(self, seconds: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except DependencyDown as error:
                log.warning_limited(
                    "upkeep_skipped", key=work.__name__, every_seconds=10, error=error.message
                )
            except Exception:
                log.exception("upkeep_failed", work=work.__name__)

    async def _look_around(self) -> None:
        # Slots come free unheard: on another instance, or while the ledger did not answer.
        self._driver.pending.wake()
        await self._watcher.look()

    # --- claims ---------------------------------------------------------------------------------

    async def renew(self) -> None:
        """Go on promising to drive this instance's jobs."""
        by_shard: dict[str, list[Job]] = {}
        for job in self._driver.jobs.values():
            by_shard.setdefault(job.job_id[2:4], []).append(job)
        await self._together(by_shard.values(), self._renew)

    async def _renew(self, jobs: list[Job]) -> None:
        sent = self._clock.monotonic()
        refused = await self._shared.renew(
            [job.job_id for job in jobs], self._instance_id, claim_ms=self._ledger.terms.claim_ms
        )
        for job in jobs:
            if job.job_id not in refused:
                job.claimed = sent
        for job_id in refused:
            await self._not_ours(job_id)

    async def _not_ours(self, job_id: JobId) -> None:
        """A claim was refused: the job has ended, is another's, or was lost with the ledger."""
        stored = await self._shared.read(job_id)
        job = self._driver.jobs.get(job_id)
        if job is None or job.in_flight:
            return
        now = self._clock.monotonic()
        if stored is None:
            if not job.is_out:
                self._driver.forgotten(job, now)
        elif stored.outcome is not None:
            self._driver.ended_elsewhere(job, lambda: take_end(job, stored), now)
        elif stored.instance_id != self._instance_id:
            self._driver.hand_on(job, stored.instance_id)

    # --- the sweep ------------------------------------------------------------------------------

    async def sweep(self) -> None:
        """One pass over this instance's share of what all of them see to."""
        with self._watch.path("sweep"):
            share, turn = self._share(), self._passes % SHARD_TURNS
            if self._passes % EVERYTHING_EVERY < SHARD_TURNS:
                share = Share()
            self._passes += 1
            shards = [shard for shard in share.of(range(JOB_SHARDS)) if shard % SHARD_TURNS == turn]
            for stored in await self._shared.due(shards, SWEEP_LIMIT):
                if not self._is_here(stored.job_id):
                    await self.take_over(stored)
            cells = await self._shared.cells()
            ours = {*share.of(cells), *(self._own_cells() & set(cells))}
            await self._together(sorted(ours), self._sweep_cell)

    async def _together(
        self, things: Any, work: Callable[[Any], Coroutine[Any, Any, None]]
    ) -> None:
        """Do something for each, some at a time."""
        things = list(things)
        for start in range(0, len(things), TOGETHER):
            await asyncio.gather(*map(work, things[start : start + TOGETHER]))

    def _is_here(self, job_id: JobId) -> bool:
        """Whether this instance has the job already: it drives it, or is about to.

        A job that is being opened may be stored, with a claim that ran out meanwhile, before its
        driver hears of it. Revived beside that one, it would end without its session's knowledge.
        """
        return job_id in self._driver.jobs or job_id in self._ledger.placer.opening

    async def take_over(self, stored: r.StoredJob) -> None:
        """Drive a job whose instance has fallen silent."""
        answer = await self._shared.take_over(
            stored.job_id,
            stored.attempt_id,
            self._instance_id,
            claim_ms=self._ledger.terms.claim_ms,
        )
        if not isinstance(answer, r.TakenOver) or self._is_here(stored.job_id):
            return
        work = answer.work
        held = await self._shared.look(
            work.job.cell, work.job.attempt_id, tombstone_ms=self._ledger.terms.tombstone_ms
        )
        if self._is_here(stored.job_id):
            return
        now = self._clock.monotonic()
        job = self._revive(work, now)
        watched = self._watcher.jobs.pop(job.job_id, None)
        if watched is not None:
            job.on_end, job.on_partial = watched.on_end, watched.on_partial
            job.on_progress = watched.on_progress
        self._driver.take_up(job)
        if isinstance(held, r.StoredAttempt) and held.state in _LIVE:
            self._goes_on(job, held, now)
            taken_ms = work.job.claim_until_ms - self._ledger.terms.claim_ms
            if held.state is AttemptState.DISPATCHED and held.due_at_ms <= taken_ms:
                # Its driver was gone before it told the node, or the node does not answer.
                self._driver.give_up(job, NO_ACK, now)
        elif isinstance(held, r.StoredAttempt) and held.state is AttemptState.FINISHED:
            self._has_result(job, held, now)
        elif now >= job.total_until:
            self._driver.stop(job, Stop(Outcome.FAILED, OUT_OF_TIME), now)
        else:
            if isinstance(held, r.StoredAttempt):
                job.left = _past(held)
                job.past = [*(job.past or ()), job.left]
            self._driver.look(job, now)

    def _goes_on(self, job: Job, held: r.StoredAttempt, now: float) -> None:
        """Its node has the job: wait for it here."""
        self._hold(job, held, now)
        job.step = _STEPS[held.state]
        if job.step is not Step.DISPATCHED:
            job.accepted_ms = job.dispatched_ms
            job.acked = True
        self._driver.goes_on(job, now)
        # It may have ended the attempt, and its word was lost with the instance before.
        self._nodes.send(held.node_id, held.owner, NodeControl(Command.REPORT))

    def _has_result(self, job: Job, held: r.StoredAttempt, now: float) -> None:
        """Its node has ended the attempt, and the cell keeps the result."""
        self._hold(job, held, now)
        self._driver.goes_on(job, now)
        assert held.outcome is not None, "a finished attempt has its outcome"
        succeeded = held.outcome is Outcome.SUCCESS
        output = held.output if succeeded else None
        if succeeded and output is None:
            self._driver.lost(job, now)
            return
        error = None if succeeded else held.error or LOST
        # The slot is free already: only the result is to be settled.
        assert job.seat is not None, "it was held just now"
        job.seat.owner = msgspec.structs.replace(held.owner, instance_id=InstanceId(""))
        self._driver.finish(job, Ending(held.outcome, output, error), now)

    def _hold(self, job: Job, held: r.StoredAttempt, now: float) -> None:
        job.attempt_id = held.attempt_id
        self._ledger.hold(job, held.node_id, held.cell, 0, held.owner, now)

    async def _sweep_cell(self, cell: int) -> None:
        for attempt in await self._shared.due_attempts(cell, SWEEP_LIMIT):
            await self._look_into(cell, attempt)

    async def _look_into(self, cell: int, attempt: r.StoredAttempt) -> None:
        """An attempt's time is up: for its node's word, or for its driver's."""
        if attempt.state is AttemptState.CANCELLING:
            owner = attempt.owner.instance_id
            if owner == self._instance_id or owner not in self._present():
                await self._cancelling(cell, attempt)
            return  # Another instance sees to its own nodes.
        driven = self._driver.attempts.get(attempt.attempt_id)
        if driven is not None and attempt.state is not AttemptState.FINISHED:
            return  # Its driver's own deadlines see to it.
        stored = await self._shared.read(attempt.job_id)
        wanted = (
            stored is not None
            and stored.outcome is None
            and stored.attempt_id == attempt.attempt_id
        )
        if attempt.state is AttemptState.FINISHED:
            if not wanted:
                await self._shared.settle(cell, (attempt.attempt_id,))
            elif driven is not None:
                # Its driver may have learned of the result meanwhile.
                is_out = self._driver.attempts.get(attempt.attempt_id) is driven
                if is_out and not driven.in_flight:
                    self._take_result(driven, attempt)
            elif stored is not None:
                await self._take_to_job(stored, attempt)
        elif not wanted:
            await self._win_back(cell, attempt)

    def _take_result(self, job: Job, attempt: r.StoredAttempt) -> None:
        """The note with the result was lost, and the cell kept it."""
        assert attempt.outcome is not None, "a finished attempt has its outcome"
        succeeded = attempt.outcome is Outcome.SUCCESS
        error = None if succeeded else attempt.error or LOST
        output = attempt.output if succeeded else None
        if job.seat is not None:
            job.seat.owner = msgspec.structs.replace(attempt.owner, instance_id=InstanceId(""))
        self._driver.finish(job, Ending(attempt.outcome, output, error), self._now())

    async def _take_to_job(self, stored: r.StoredJob, attempt: r.StoredAttempt) -> None:
        """The driver has not taken a result: it missed the note, or it is gone."""
        error = attempt.error
        if attempt.output is None and error is not None and error.retryable:
            # Another attempt is due, which is for the driver to make: this one, or the next.
            self._remote.tell_result(attempt, stored.instance_id)
            return
        await self._shared.list_again(stored, self._instance_id)
        await self._remote.close(attempt)
        if stored.instance_id == self._instance_id:
            await self._not_ours(attempt.job_id)
        else:
            self._peers.ended(attempt.job_id, stored.instance_id)
            # Its driver may be gone; those who wait for it here need not find out by looking.
            await self._remote.on_ended(attempt.job_id)

    async def _win_back(self, cell: int, attempt: r.StoredAttempt) -> None:
        """No job wants the attempt any more."""
        answer = await self._shared.cancel(
            cell, attempt.attempt_id, LOST, grace_ms=self._ledger.terms.slots.grace_ms
        )
        if isinstance(answer, r.CancelWon):
            cancel = JobCancel(attempt.job_id, attempt.attempt_id, LOST.code)
            self._nodes.send(answer.node_id, answer.owner, cancel)

    async def _cancelling(self, cell: int, attempt: r.StoredAttempt) -> None:
        """A node has not let go of a cancelled attempt in time."""
        is_own = attempt.owner.instance_id == self._instance_id
        if attempt.asked or not is_own:
            # It was asked for a report and is silent: it is gone, or nearly.
            sender = Sender(attempt.node_id, attempt.owner.epoch)
            lost = await self._shared.lose(cell, sender, only_if_silent=True)
            if isinstance(lost, NodeLost):
                self._remote.freed(lost.freed)
                for running in lost.lost:
                    job = self._driver.attempts.get(running.attempt_id)
                    if job is not None:
                        self._driver.lost(job, self._now())
                    else:
                        await self._remote.lost(cell, running)
                return
        if not is_own:
            # Its instance may only be slow. What the node said to it before it heard of the
            # attempt would pass for the answer, and the attempt reach the node after that.
            return
        # Marked before asked: the answer to the question is the heartbeat that decides.
        await self._shared.mark_asked(
            cell, attempt.attempt_id, grace_ms=self._ledger.terms.slots.grace_ms
        )
        code = attempt.error.code if attempt.error is not None else LOST.code
        cancel = JobCancel(attempt.job_id, attempt.attempt_id, code)
        self._nodes.send(attempt.node_id, attempt.owner, cancel)
        self._nodes.send(attempt.node_id, attempt.owner, NodeControl(Command.REPORT))

    def _now(self) -> float:
        return self._clock.monotonic()


def total_until(work: r.OpenWork, claim_ms: int, now: float) -> float:
    """When the job's time is up, in monotonic seconds.

    The job was claimed just now, and its claim tells the ledger's time of then.
    """
    if work.job.total_until_ms is None or work.job.spec.job_class is JobClass.BATCH:
        return inf
    claimed_ms = work.job.claim_until_ms - claim_ms
    return now + (work.job.total_until_ms - claimed_ms) / 1000


def waited_since(work: r.OpenWork, claim_ms: int, now: float) -> float:
    """Since when the job looks for a slot, on any instance, in monotonic seconds."""
    job = work.job
    since_ms = job.past[-1].times.finished_ms if job.past else job.created_ms
    claimed_ms = job.claim_until_ms - claim_ms
    return now + min(0, since_ms - claimed_ms) / 1000 if since_ms else now


def _past(held: r.StoredAttempt) -> PastAttempt:
    return PastAttempt(
        held.attempt_id,
        held.cell,
        held.node_id,
        outcome=Outcome.FAILED,
        error=held.error or LOST,
        times=held.times,
    )
