"""The attempts that a node has in hand."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from dragoman.errors import InvalidMessage
from dragoman.ids import AttemptId, JobId
from dragoman.live.protocol import (
    ErrorInfo,
    JobPartial,
    JobResult,
    Message,
    ModelNotAvailable,
    RunningJob,
)
from dragoman.sdk.node.job import Answer
from dragoman.sdk.parameters import shortened

Outcome = JobResult | ModelNotAvailable
"""The message that ends an attempt."""


class Attempt:
    """One attempt of a job, from its assignment until its end has been sent.

    It is also the channel of its job: the function may speak from whatever thread it runs in.
    """

    __slots__ = (
        "_loop",
        "_say",
        "_thread_id",
        "abandoned",
        "attempt_id",
        "called_off",
        "job_id",
        "outcome",
        "started_at",
        "task",
    )

    def __init__(
        self,
        job_id: JobId,
        attempt_id: AttemptId,
        started_at: float,
        say: Callable[[Message], None],
        loop: asyncio.AbstractEventLoop,
        thread_id: int,
    ) -> None:
        self.job_id = job_id
        self.attempt_id = attempt_id
        self.started_at = started_at
        self.task: asyncio.Task[Answer] | None = None
        self.called_off: ErrorInfo | None = None
        """Why the function was cancelled; this is then the outcome, whatever it returns."""
        self.abandoned = False
        """The node ends before the function does."""
        self.outcome: Outcome | None = None
        """Set when the function has ended."""
        self._say = say
        self._loop = loop
        self._thread_id = thread_id

    @property
    def listed(self) -> RunningJob:
        """As heartbeats list it."""
        return RunningJob(self.job_id, self.attempt_id)

    @property
    def cancelled(self) -> bool:
        return self.called_off is not None

    def partial(self, text: str, is_final: bool) -> None:
        if type(text) is not str:
            text = _plain_text(text)
        message = JobPartial(self.job_id, self.attempt_id, text, bool(is_final))
        if threading.get_ident() == self._thread_id:
            self._say_partial(message)
        else:
            self._loop.call_soon_threadsafe(self._say_partial, message)

    def _say_partial(self, message: JobPartial) -> None:
        if self.outcome is None:  # nothing comes after the end
            self._say(message)


def _plain_text(text: object) -> str:
    if not isinstance(text, str):
        raise InvalidMessage(f"`text` of a partial is {shortened(text)}; give a text")
    return str.__str__(text)


class Hand:
    """What the node lists as running: from before the ack is sent until the end has been sent.

    A function that has ended no longer takes up a slot, though its result may still have to wait
    for a connection.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.high_water = 0
        """The most functions that ever ran at once."""
        self.empty = asyncio.Event()
        """Set while nothing is in hand."""
        self.empty.set()
        self._attempts: dict[AttemptId, Attempt] = {}
        self._working = 0

    @property
    def full(self) -> bool:
        return self._working >= self.slots

    @property
    def listed(self) -> tuple[RunningJob, ...]:
        return tuple(attempt.listed for attempt in self._attempts.values())

    def get(self, attempt_id: AttemptId) -> Attempt | None:
        return self._attempts.get(attempt_id)

    def take(self, attempt: Attempt) -> None:
        """Its function is about to start."""
        self._attempts[attempt.attempt_id] = attempt
        self._working += 1
        if self._working > self.high_water:
            self.high_water = self._working
        if len(self._attempts) == 1:
            self.empty.clear()

    def finish(self, attempt: Attempt, outcome: Outcome) -> None:
        """Its function has ended; the outcome waits to be sent."""
        attempt.outcome = outcome
        self._working -= 1

    def let_go(self, attempt: Attempt) -> None:
        """Its outcome has been sent."""
        self._attempts.pop(attempt.attempt_id, None)
        if not self._attempts:
            self.empty.set()

    def working(self) -> list[Attempt]:
        """Those whose function still runs."""
        return [attempt for attempt in self._attempts.values() if attempt.outcome is None]

    def finished(self) -> list[Attempt]:
        """Those whose outcome was not sent yet."""
        return [attempt for attempt in self._attempts.values() if attempt.outcome is not None]
