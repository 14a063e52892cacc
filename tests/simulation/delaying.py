"""A ledger in memory whose answers come late and out of order, as those of a server would."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import Any

from dragoman.live.dispatch import MemoryLedger
from dragoman.live.dispatch.job import Job
from dragoman.live.dispatch.job_ledger import (
    AfterFinish,
    AfterOutlook,
    AfterPlace,
    AfterPreempt,
    Finishing,
    PlaceAnswer,
)
from dragoman.live.ledger import Ending, Freed


class DelayingLedger(MemoryLedger):
    """Carries out what is answered by a callback some time after it was asked for, and answers some
    time after that; each takes as long as it is drawn."""

    def __init__(self, *arguments: Any, delays: Random, seconds: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._delays = delays
        self._seconds = seconds

    def place(self, job: Job, now: float, then: AfterPlace) -> None:
        def answer(job: Job, answer: PlaceAnswer, now: float) -> None:
            self._later(partial(then, job, answer))

        self._later(lambda at: MemoryLedger.place(self, job, at, answer))

    def finish(
        self, job: Job, ending: Ending, *, again: bool, now: float, then: AfterFinish
    ) -> None:
        def answer(job: Job, answer: Finishing, freed: Freed, now: float) -> None:
            self._later(partial(then, job, answer, freed))

        self._later(
            lambda at: MemoryLedger.finish(self, job, ending, again=again, now=at, then=answer)
        )

    def end(self, job: Job, ending: Ending, now: float, then: AfterFinish) -> None:
        def answer(job: Job, answer: Finishing, freed: Freed, now: float) -> None:
            self._later(partial(then, job, answer, freed))

        self._later(lambda at: MemoryLedger.end(self, job, ending, at, answer))

    def preempt(self, job: Job, now: float, then: AfterPreempt) -> None:
        # The victim must not go on as if it had its slot: its driver hears at once.
        self._later(lambda at: MemoryLedger.preempt(self, job, at, then))

    def outlook_for(self, job: Job, now: float, then: AfterOutlook) -> None:
        self._later(lambda at: MemoryLedger.outlook_for(self, job, at, then))

    def _later(self, act: Any) -> None:
        delay = self._delays.choice((0.0, self._delays.random() * self._seconds))
        loop = asyncio.get_running_loop()
        loop.call_later(delay, lambda: act(self._clock.monotonic()))
