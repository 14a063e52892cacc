"""The attempts that a node has in hand."""

from __future__ import annotations

import asyncio

from dragoman.ids import AttemptId
from dragoman.live.protocol import ErrorInfo, JobResult, ModelNotAvailable, RunningJob
from dragoman.sdk.node.job import Answer

Outcome = JobResult | ModelNotAvailable
"""The message that ends an attempt."""


class Attempt:
    """One attempt of a job, from its assignment until its end has been sent."""

    __slots__ = ("abandoned", "called_off", "listed", "outcome", "started_at", "task")

    def __init__(self, listed: RunningJob, started_at: float) -> None:
        self.listed = listed
        self.started_at = started_at
        self.task: asyncio.Task[Answer] | None = None
        self.called_off: ErrorInfo | None = None
        """Why the function was cancelled; this is then the outcome, whatever it returns."""
        self.abandoned = False
        """The node ends before the function does."""
        self.outcome: Outcome | None = None
        """Set when the function has ended."""


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
        self._attempts[attempt.listed.attempt_id] = attempt
        self._working += 1
        self.high_water = max(self.high_water, self._working)
        self.empty.clear()

    def finish(self, attempt: Attempt, outcome: Outcome) -> None:
        """Its function has ended; the outcome waits to be sent."""
        attempt.outcome = outcome
        self._working -= 1

    def let_go(self, attempt: Attempt) -> None:
        """Its outcome has been sent."""
        self._attempts.pop(attempt.listed.attempt_id, None)
        if not self._attempts:
            self.empty.set()

    def working(self) -> list[Attempt]:
        """Those whose function still runs."""
        return [attempt for attempt in self._attempts.values() if attempt.outcome is None]

    def finished(self) -> list[Attempt]:
        """Those whose outcome was not sent yet."""
        return [attempt for attempt in self._attempts.values() if attempt.outcome is not None]
