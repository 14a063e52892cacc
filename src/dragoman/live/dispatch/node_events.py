"""What nodes say about their attempts, and what becomes of attempts whose node is gone."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import msgspec

from dragoman.clock import Clock
from dragoman.errors import DependencyDown
from dragoman.ids import AttemptId, JobId
from dragoman.live.dispatch.course import Course
from dragoman.live.dispatch.hosting import Hosting
from dragoman.live.dispatch.leftovers import why_dropped
from dragoman.live.dispatch.orders import Progress
from dragoman.live.dispatch.retelling import Retelling
from dragoman.live.dispatch.sightings import Sightings
from dragoman.live.dispatch.steps import Said, Steps
from dragoman.live.ledger import (
    Adopted,
    Adoption,
    Cold,
    Ending,
    Finished,
    Freed,
    JobDone,
    LateFinish,
    Ledger,
    Moved,
    Repeat,
    Sender,
    Settlement,
    Stale,
    StaleReason,
    Step,
    Terms,
)
from dragoman.live.protocol import (
    AttemptState,
    ErrorInfo,
    JobClass,
    JobPartial,
    JobResult,
    ModelNotAvailable,
    Outcome,
    RunningJob,
)
from dragoman.observability import yielding

_REASON_MAX_CHARACTERS = 256
"""Of a node's reason for a missing model: it is kept as long as the job is."""


UNKNOWN_AT_A_TIME = 500
"""Of a node's unknown attempts, looked at for one heartbeat; it is told of each to cancel it."""


def ending_of(result: JobResult) -> Ending:
    """How the node says the attempt ended."""
    if result.success:
        return Ending(Outcome.SUCCESS, output=result)
    error = result.error or ErrorInfo("INTERNAL_ERROR", "The node failed without saying why.")
    return Ending(Outcome.FAILED, error=error)


class NodeEvents:
    """Takes messages about attempts to the ledger, and their consequences to the jobs."""

    def __init__(
        self,
        ledger: Ledger,
        settlement: Settlement,
        course: Course,
        sightings: Sightings,
        terms: Terms,
        clock: Clock,
        hosting: Hosting | None = None,
    ) -> None:
        """hosting knows the attempts of jobs that other instances drive."""
        self._ledger = ledger
        self._settlement = settlement
        self._course = course
        self._sightings = sightings
        self._terms = terms
        self._clock = clock
        self._hosting = hosting
        self._retelling = Retelling(course.spawn, clock, for_seconds=terms.lease_ms / 1000)
        # Alone, the ledger is at hand, and there is nothing to save.
        self._steps = Steps(self._tell_step, course.spawn) if hosting is not None else None

    async def moved(
        self, cell: int, sender: Sender, attempt_id: AttemptId, to: AttemptState, number: int
    ) -> None:
        """The node accepted the attempt, or began to work on it, and said so with this word."""
        said = Said(cell, sender, attempt_id, to, number, self._clock.monotonic())
        if self._steps is not None:
            self._steps.say(said)
        else:
            await self._move(said)

    async def _tell_step(self, said: Said) -> None:
        """Take a step to the ledger; one that does not listen is told again."""
        try:
            await self._move(said)
        except DependencyDown:
            self._retelling.later(lambda: self._move(said))

    async def _move(self, said: Said) -> None:
        answer = await self._ledger.transition(
            said.cell, said.attempt_id, said.sender, said.to, number=said.number
        )
        self._took_step(answer, said.attempt_id, said.to)

    def _took_step(
        self, answer: Moved | Repeat | Stale | Cold, attempt_id: AttemptId, to: AttemptState
    ) -> None:
        if not isinstance(answer, Moved | Repeat):
            return
        # A heartbeat that lists the attempt may have come first: then the ack is a repeat.
        at_ms = answer.at_ms
        job = self._course.attempts.get(attempt_id)
        if job is None or job.attempt is None:
            if self._hosting is not None:
                self._hosting.moved(attempt_id, to, at_ms)
            return
        if not job.attempt.accepted_ms:
            job.progressed(Progress.ACCEPTED)
        job.attempt.accepted(at_ms, self._clock.monotonic(), self._terms.run_ms)
        if to is AttemptState.RUNNING and not job.attempt.running_ms:
            job.attempt.running_ms = at_ms
            job.progressed(Progress.RUNNING)

    async def result(self, cell: int, sender: Sender, result: JobResult) -> bool:
        """The attempt is over, well or not; False when it was over before, or never was."""
        return await self._finish(cell, sender, result.attempt_id, ending_of(result), result.job_id)

    async def model_not_available(
        self, cell: int, sender: Sender, message: ModelNotAvailable
    ) -> None:
        """A service is missing; the attempt it was needed for goes elsewhere."""
        if message.attempt_id is None:
            return
        reason = message.reason[:_REASON_MAX_CHARACTERS]
        error = ErrorInfo("MODEL_NOT_AVAILABLE", f"{message.service_id}: {reason}")
        ending = Ending(Outcome.FAILED, error=error)
        await self._finish(cell, sender, message.attempt_id, ending, message.job_id)

    async def partial(self, sender: Sender, partial: JobPartial) -> None:
        """What the node has recognised so far; only of its own, current attempt."""
        job = self._course.attempts.get(partial.attempt_id)
        if job is None and self._hosting is not None:
            self._hosting.partial(sender.node_id, partial)
        if job is None or job.attempt is None or job.attempt.node_id != sender.node_id:
            return
        if job.on_partial is not None:
            job.on_partial(partial)

    def freed(self, freed: Freed) -> None:
        """Slots came free."""
        self._course.freed(freed)

    def wake(self) -> None:
        """The fleet can do more than before."""
        self._course.wake()

    async def lost(self, cell: int, running: Iterable[RunningJob]) -> None:
        """Attempts whose node no longer has them go elsewhere, now."""
        async for entry in yielding(running, self._clock):
            await self._settle_stored(cell, entry.attempt_id)

    async def unknown(
        self, cell: int, sender: Sender, running: Iterable[RunningJob], number: int
    ) -> tuple[RunningJob, ...]:
        """Attempts a node runs that its cell does not know; answers those it must cancel.

        Of very many only some are looked at: a node lists the others again with its next heartbeat.
        """
        unwanted = []
        async for entry in yielding(islice(running, UNKNOWN_AT_A_TIME), self._clock):
            job = await self._ledger.read(entry.job_id)
            current = job.current_attempt if job else None
            wanted = (
                current is not None
                and current.attempt_id == entry.attempt_id
                and current.node_id == sender.node_id
            )
            answer = await self._ledger.adopt(
                cell,
                Adoption(
                    running=entry,
                    sender=sender,
                    job_class=job.spec.job_class if job else JobClass.LIVE,
                    wanted=wanted,
                    lease_ms=self._terms.lease_ms,
                    run_ms=self._terms.run_ms,
                    number=number,
                ),
            )
            if not wanted or not isinstance(answer, Adopted):
                unwanted.append(entry)
        return tuple(unwanted)

    async def _finish(
        self,
        cell: int,
        sender: Sender,
        attempt_id: AttemptId,
        ending: Ending,
        job_id: JobId | None,
        *,
        again: bool = False,
    ) -> bool:
        """End the attempt; whether it had not ended before."""
        said = self._steps.over(attempt_id, sender) if self._steps is not None else None
        try:
            answer = await self._ledger.finish(
                cell, attempt_id, sender, ending, due_ms=self._terms.grace_ms
            )
            match answer:
                case Finished():
                    if said is not None:
                        ago_ms = int((self._clock.monotonic() - said.at) * 1000)
                        moved = Moved(answer.job_id, answer.at_ms - ago_ms)
                        self._took_step(moved, attempt_id, said.to)
                    await self._settle(cell, attempt_id, ending, answer.at_ms)
                    self._course.freed(answer.freed)
                    return True
                case LateFinish():
                    self._sightings.dropped(StaleReason.LATE)
                    self._course.freed(answer.freed)
                case Stale(StaleReason.DUPLICATE) if again:
                    await self._settle_stored(cell, attempt_id)
                case Stale(StaleReason.UNKNOWN) if job_id is not None:
                    await self._count_leftover(job_id, attempt_id, sender)
                case Stale():
                    self._sightings.dropped(answer.reason)
                case Cold():
                    self._sightings.dropped(StaleReason.UNKNOWN)
        except DependencyDown:
            if not again:
                self._retelling.later(
                    lambda: self._finish(cell, sender, attempt_id, ending, job_id, again=True)
                )
            raise
        return False

    async def _count_leftover(self, job_id: JobId, attempt_id: AttemptId, sender: Sender) -> None:
        """The attempt is gone from its cell: the job may remember what became of it."""
        try:
            job = await self._ledger.read(job_id)
        except DependencyDown:
            job = None
        self._sightings.dropped(why_dropped(job, attempt_id, sender.node_id))

    async def _settle(
        self, cell: int, attempt_id: AttemptId, ending: Ending, finished_ms: int
    ) -> None:
        """Take the finished attempt to its job: as this instance knows it, or the ledger does."""
        job = self._course.attempts.get(attempt_id)
        guest = self._hosting.guest(attempt_id) if self._hosting is not None else None
        step: Step
        if guest is not None and ending.outcome is Outcome.SUCCESS:
            step = await self._settlement.succeeded(
                cell, guest.running.job_id, attempt_id, ending, guest.times(finished_ms)
            )
            if self._hosting is not None and isinstance(step, JobDone):
                self._hosting.ended(guest, step.job)
        elif job is None or job.attempt is None:
            await self._settle_stored(cell, attempt_id)
            return
        elif ending.outcome is Outcome.SUCCESS:
            times = job.attempt.times(finished_ms)
            step = await self._settlement.succeeded(cell, job.job_id, attempt_id, ending, times)
        else:
            step = await self._settlement.take(
                msgspec.structs.replace(
                    job.attempt.record(job, finished_ms), outcome=ending.outcome, error=ending.error
                )
            )
        await self._course.follow(step)

    async def _settle_stored(self, cell: int, attempt_id: AttemptId) -> None:
        """Take an attempt to its job as the ledger has it, if that has not been done."""
        attempt = await self._ledger.read_attempt(cell, attempt_id)
        if attempt is not None and attempt.state is AttemptState.FINISHED:
            await self._course.follow(await self._settlement.take(attempt))
