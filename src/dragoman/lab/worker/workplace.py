"""A worker's state for one run: its experiment, its bench, the items in progress."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from dragoman.lab.failures import Failure
from dragoman.lab.model import Experiment, Run
from dragoman.lab.repository import Lease
from dragoman.lab.states import RunMode
from dragoman.lab.worker.execution import Bench


class OpenBench(Protocol):
    """A bench, and how to clear it away."""

    bench: Bench

    def take_up(self, experiment: Experiment) -> None:
        """Go by the experiment's present limits."""
        ...

    async def close(self) -> None: ...


BenchOpener = Callable[[Experiment, RunMode], Awaitable[OpenBench]]
"""Opens what a run in this mode needs of an experiment; raises a `DragomanError` if it cannot."""


class Workplace:
    """One for each run that the worker has items of."""

    def __init__(self, run: Run, experiment: Experiment, opened: OpenBench | Failure) -> None:
        self.run = run
        self.experiment = experiment
        self.opened = opened
        self.evaluator_numbers = experiment.spec.numbers
        self.working: dict[Lease, asyncio.Task[None]] = {}
        self.begun_at_ms: dict[Lease, int] = {}
        """When each item in progress was begun."""
        self.freed_at: deque[float] = deque(maxlen=1_000)
        """When items ended whose places have not been filled again."""

    def take_up(self, experiment: Experiment) -> None:
        """Apply the experiment's changes that may be made while it runs."""
        if experiment.spec == self.experiment.spec or isinstance(self.opened, Failure):
            return
        self.experiment = experiment
        self.opened.take_up(experiment)

    @property
    def has_no_share(self) -> bool:
        """Whether other workers have all calls at once that the target takes."""
        return not isinstance(self.opened, Failure) and self.opened.bench.share == 0

    def revoke(self, lease: Lease) -> None:
        """Stop working on an item that is no longer held under this lease."""
        if lease in self.working:
            self.working[lease].cancel()

    def stop(self) -> None:
        """Stop working on every item of the run."""
        for task in self.working.values():
            task.cancel()

    async def close(self) -> None:
        """Wait for the stopped items, then close the target and the evaluators."""
        self.stop()
        await asyncio.gather(*self.working.values(), return_exceptions=True)
        if not isinstance(self.opened, Failure):
            await self.opened.close()
