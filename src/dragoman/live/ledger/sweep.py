"""The sweep: finds what every timer and every process has missed.

A sweep reads what is due and takes the same fenced steps the fast path takes. Any number of
processes may sweep the same things at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from dragoman.errors import DependencyDown
from dragoman.ids import InstanceId
from dragoman.live.ledger import answers as a
from dragoman.live.ledger.asks import Ending, Sender
from dragoman.live.ledger.interface import Ledger
from dragoman.live.ledger.records import AttemptRecord, JobInput, JobRecord, PastAttempt
from dragoman.live.ledger.settlement import (
    NO_ACK,
    OUT_OF_TIME,
    RAN_TOO_LONG,
    JobDone,
    NothingToDo,
    Settlement,
    Step,
    Terms,
    TryAgain,
    final_error,
)
from dragoman.live.protocol import AttemptState, ErrorInfo, JobClass, Outcome

_TOGETHER = 10
"""How many due things are taken on at the same time."""

SWEEP_LIMIT = 1_000
"""How many due things one pass takes on; the rest stay due."""


T = TypeVar("T")


class Hands(Protocol):
    """What a sweep cannot do itself: speak to nodes, find them, tell those that wait."""

    async def tell_cancel(self, won: a.CancelWon, attempt: AttemptRecord) -> None:
        """Tell the node to stop working on the attempt."""
        ...

    async def ask_report(self, attempt: AttemptRecord) -> None:
        """Ask the node for a heartbeat now."""
        ...

    async def dispatch(self, job: JobRecord, job_input: JobInput) -> None:
        """Find the job a node, or have its driver do so."""
        ...

    async def ended(self, job: JobRecord) -> None:
        """The job has its end: tell those that wait for it."""
        ...

    async def freed(self, freed: a.Freed) -> None:
        """Slots came free."""
        ...


class Sweeper:
    """One pass over due attempts and due jobs."""

    def __init__(
        self,
        ledger: Ledger,
        hands: Hands,
        terms: Terms,
        instance_id: InstanceId,
        settlement: Settlement | None = None,
    ) -> None:
        self._ledger = ledger
        self._hands = hands
        self._terms = terms
        self._instance_id = instance_id
        self._settlement = settlement or Settlement(ledger, terms, instance_id)

    async def sweep(self, cells: Sequence[int], shards: Sequence[int]) -> int:
        """Take on what is due in these cells and job shards; answers how much there was."""
        attempts = await self._ledger.due_attempts(cells, SWEEP_LIMIT)
        await _each(self._attempt_due, attempts)
        jobs = await self._ledger.due_jobs(shards, SWEEP_LIMIT)
        await _each(self._job_due, jobs)
        return len(attempts) + len(jobs)

    async def _attempt_due(self, attempt: AttemptRecord) -> None:
        match attempt.state:
            case AttemptState.FINISHED:
                await self._follow(await self._settlement.take(attempt))
            case AttemptState.CANCELLING:
                await self._cancel_unanswered(attempt)
            case AttemptState.DISPATCHED:
                await self._never_acknowledged(attempt)
            case AttemptState.ACCEPTED | AttemptState.RUNNING:
                if attempt.due_at_ms >= attempt.run_until_ms:
                    await self._give_up(attempt, RAN_TOO_LONG)
                else:
                    await self._lose_silent_node(attempt)

    async def _never_acknowledged(self, attempt: AttemptRecord) -> None:
        job = await self._ledger.read(attempt.job_id)
        if job is not None and job.current == attempt.attempt_id:
            await self._give_up(attempt, NO_ACK)
            return
        # First, so that a slow driver cannot bind the attempt after its slot is gone.
        step = await self._settlement.shut_out(attempt, NO_ACK)
        if step is None:
            answer = await self._ledger.drop(attempt.cell, attempt.attempt_id)
            if isinstance(answer, a.Dropped):
                await self._hands.freed(answer.freed)
                return
        won = await self._settlement.cancel(attempt, NO_ACK)
        if won is not None:
            await self._hands.tell_cancel(won, attempt)
        if step is not None:
            await self._follow(step)

    async def _cancel_unanswered(self, attempt: AttemptRecord) -> None:
        if attempt.asked:
            await self._lose_silent_node(attempt)
        elif attempt.error is not None:
            # The instance that won the cancel may have died before the job heard of it.
            await self._follow(await self._settlement.cancelled(attempt, attempt.error))
        # Marked before asked: the answer to the question is the heartbeat that decides.
        marked = await self._ledger.mark_asked(
            attempt.cell, attempt.attempt_id, grace_ms=self._terms.grace_ms
        )
        if isinstance(marked, a.Done):
            # The node may never have heard that it is to stop.
            won = a.CancelWon(attempt.job_id, attempt.node_id, attempt.owner)
            await self._hands.tell_cancel(won, attempt)
            await self._hands.ask_report(attempt)

    async def _give_up(self, attempt: AttemptRecord, error: ErrorInfo) -> None:
        won = await self._settlement.cancel(attempt, error)
        if won is not None:
            # The job first: with the node's answer the attempt is gone, and a job that had not
            # been told by then would wait for it in vain.
            step = await self._settlement.failed(attempt, error)
            await self._hands.tell_cancel(won, attempt)
            await self._follow(step)

    async def _lose_silent_node(self, attempt: AttemptRecord) -> None:
        sender = Sender(attempt.node_id, attempt.owner.epoch)
        answer = await self._ledger.lose(attempt.cell, sender, only_if_silent=True)
        if not isinstance(answer, a.NodeLost):
            return
        await self._hands.freed(answer.freed)
        for running in answer.lost:
            ended = await self._ledger.read_attempt(attempt.cell, running.attempt_id)
            if ended is not None and ended.state is AttemptState.FINISHED:
                await self._follow(await self._settlement.take(ended))

    async def _job_due(self, job: JobRecord) -> None:
        current = job.current_attempt
        if current is not None:
            await self._out_of_time(job, current)
            return
        exhausted = self._exhausted(job)
        if exhausted is not None:
            # Its driver died between the last attempt and the end.
            ending = Ending(Outcome.FAILED, error=exhausted)
            await self._follow(await self._settlement.end_without_attempt(job.job_id, ending))
            return
        total = job.total_until_ms
        if total is not None and total <= job.claim_until_ms:
            await self._follow(
                await self._settlement.end_without_attempt(
                    job.job_id, Ending(Outcome.FAILED, error=OUT_OF_TIME)
                )
            )
            return
        taken = await self._ledger.take_over(
            job.job_id, self._instance_id, claim_ms=self._terms.ack_ms
        )
        if isinstance(taken, a.Taken):
            await self._hands.dispatch(taken.job, taken.input)

    def _exhausted(self, job: JobRecord) -> ErrorInfo | None:
        errors = [past.error for past in job.attempts if past.bound and past.error is not None]
        return final_error(job, errors[-1], self._terms.max_attempts) if errors else None

    async def _out_of_time(self, job: JobRecord, current: PastAttempt) -> None:
        attempt = await self._ledger.read_attempt(current.cell, current.attempt_id)
        if attempt is not None and attempt.state is AttemptState.FINISHED:
            await self._follow(await self._settlement.take(attempt))
            return
        if attempt is None and job.spec.job_class is JobClass.BATCH:
            # Its cell forgot it: cancelled and let go, but the job was not told. It waits again.
            await self._follow(await self._settlement.forgotten(job, current))
            return
        won = await self._settlement.cancel(attempt, OUT_OF_TIME) if attempt else None
        if attempt is not None and won is None:
            # It ended this moment, and its own end is the job's.
            return
        answer = await self._ledger.end(
            job.job_id,
            current.attempt_id,
            Ending(Outcome.FAILED, error=OUT_OF_TIME),
            times=attempt.times if attempt else current.times,
            keep=self._terms.keep,
        )
        if attempt is not None and won is not None:
            await self._hands.tell_cancel(won, attempt)
        if isinstance(answer, a.Ended):
            await self._hands.ended(answer.job)

    async def _follow(self, step: Step) -> None:
        match step:
            case JobDone(job):
                await self._hands.ended(job)
            case TryAgain(job):
                job_input = await self._ledger.read_input(job.job_id)
                if job_input is not None:
                    await self._hands.dispatch(job, job_input)
            case NothingToDo():
                pass


async def _each(take_on: Callable[[T], Awaitable[None]], due: Sequence[T]) -> None:
    """Take on everything that is due, some at a time; what fails holds up nothing else.

    Only when the ledger is away the rest is left for the next pass.
    """
    failures: list[BaseException] = []
    for start in range(0, len(due), _TOGETHER):
        some = due[start : start + _TOGETHER]
        answers = await asyncio.gather(*map(take_on, some), return_exceptions=True)
        failures += [answer for answer in answers if answer is not None]
        if any(isinstance(failure, DependencyDown) for failure in failures):
            break
    if failures:
        raise failures[0]
