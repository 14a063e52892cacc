"""Where a node's jobs are done: taken or refused, run, called off, answered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial

from dragoman.clock import Clock
from dragoman.live.protocol import (
    ErrorInfo,
    JobAck,
    JobAssign,
    JobResult,
    JobStarted,
    RunningJob,
)
from dragoman.sdk.node.events import Accepted, Ended, Event, FunctionFailed, Refused
from dragoman.sdk.node.hand import Attempt, Hand, Outcome
from dragoman.sdk.node.job import Answer, ModelMissing, WrongAnswer, job_from
from dragoman.sdk.node.outbox import NodeOutbox
from dragoman.sdk.node.outcomes import (
    LEAVING,
    OVERLOADED,
    failure,
    raised,
    success,
    unreadable,
)
from dragoman.sdk.node.work import Work

_ABANDON_SECONDS = 1.0
"""How long a cancelled function may tidy up when the node leaves at once."""


class Workbench:
    """Runs at most `hand.slots` functions at once; each assignment gets exactly one end."""

    def __init__(
        self,
        hand: Hand,
        outbox: NodeOutbox,
        work: Work,
        clock: Clock,
        tell: Callable[[Event], None],
        *,
        is_watched: bool,
    ) -> None:
        """`is_watched`: the node's owner is told of each job, and not of failures alone."""
        self._hand = hand
        self._outbox = outbox
        self._work = work
        self._clock = clock
        self._tell = tell
        self._is_watched = is_watched
        self.closing = False
        """Whether new jobs are turned away."""

    def assign(self, assign: JobAssign) -> None:
        """Take a job, or refuse it at once."""
        hand, say, job_id, attempt_id = (
            self._hand,
            self._outbox.say,
            assign.job_id,
            assign.attempt_id,
        )
        if hand.get(attempt_id) is not None:
            say(JobAck(job_id, attempt_id))
        elif self.closing:
            self._refuse(RunningJob(job_id, attempt_id), LEAVING)
        elif hand.full:
            self._refuse(RunningJob(job_id, attempt_id), OVERLOADED)
        else:
            loop = asyncio.get_running_loop()
            started_at = self._clock.monotonic()
            attempt = Attempt(job_id, attempt_id, started_at, say, loop, threading.get_ident())
            hand.take(attempt)
            say(JobAck(job_id, attempt_id))
            say(JobStarted(job_id, attempt_id))
            if self._is_watched:
                self._tell(Accepted(job_id, attempt_id))
            attempt.task = loop.create_task(self._work(job_from(assign, attempt)))
            # Not a try around the work: a task that is cancelled before its first step never
            # enters it.
            attempt.task.add_done_callback(partial(self._done, attempt))

    def call_off(self, listed: RunningJob, why: ErrorInfo) -> None:
        """End an attempt that is no longer wanted; an unknown one gets the same answer."""
        attempt = self._hand.get(listed.attempt_id)
        if attempt is None:
            self._outbox.say(failure(listed, why))
        elif attempt.task is not None and attempt.outcome is None and attempt.called_off is None:
            # Once only: a second cancel would interrupt the function's tidying up.
            attempt.called_off = why
            attempt.task.cancel()

    def settle(self, unwanted: tuple[RunningJob, ...], why: ErrorInfo) -> None:
        """Bring a new connection up to date: results that waited for it are sent.

        What the scheduler does not want any more is called off, and ends as such even if it
        was finished in the meantime.
        """
        for listed in unwanted:
            attempt = self._hand.get(listed.attempt_id)
            if attempt is not None and attempt.outcome is not None:
                attempt.outcome = failure(listed, why)
            else:
                self.call_off(listed, why)
        for attempt in self._hand.finished():
            self._outbox.answer(attempt)

    def call_off_all(self, why: ErrorInfo) -> None:
        """End whatever still runs."""
        for attempt in self._hand.working():
            self.call_off(attempt.listed, why)

    async def abandon(self) -> None:
        """Leave nothing running. Functions get a moment to tidy up, threads are left behind."""
        for _ in range(2):  # the second time also interrupts the tidying up
            tasks = []
            for attempt in self._hand.working():
                attempt.abandoned = True
                if attempt.task is not None:
                    attempt.task.cancel()
                    tasks.append(attempt.task)
            if tasks:
                await asyncio.wait(tasks, timeout=_ABANDON_SECONDS)

    def _refuse(self, listed: RunningJob, why: ErrorInfo) -> None:
        self._outbox.say(failure(listed, why))
        self._tell(Refused(listed.job_id, listed.attempt_id, why.code))

    def _done(self, attempt: Attempt, task: asyncio.Task[Answer]) -> None:
        try:
            outcome = self._outcome(attempt, task)
        except Exception as error:
            # Whatever is wrong with what the function left behind, its slot must become free.
            self._tell(FunctionFailed(attempt.job_id, attempt.attempt_id, error))
            outcome = unreadable(attempt.listed, error)
        self._hand.finish(attempt, outcome)
        if self._is_watched:
            # Before the answer: another node may begin as soon as a failure is sent.
            code: str | None = ModelMissing.code
            if isinstance(outcome, JobResult):
                code = None if outcome.error is None else outcome.error.code
            self._tell(Ended(attempt.job_id, attempt.attempt_id, code))
        self._outbox.answer(attempt)

    def _outcome(self, attempt: Attempt, task: asyncio.Task[Answer]) -> Outcome:
        error = None if task.cancelled() else task.exception()
        if attempt.called_off is not None:
            return failure(attempt.listed, attempt.called_off)
        if task.cancelled() and attempt.abandoned:
            return failure(attempt.listed, LEAVING)
        if task.cancelled():
            # As when it awaited a task of its own that was cancelled.
            error = RuntimeError("the function was cancelled from within, not by the node")
        if error is None:
            total_ms = (self._clock.monotonic() - attempt.started_at) * 1000
            try:
                return success(attempt.job_id, attempt.attempt_id, task.result(), total_ms)
            except WrongAnswer as wrong:
                error = wrong
        self._tell(FunctionFailed(attempt.job_id, attempt.attempt_id, error))
        return raised(attempt.listed, error)
