"""A worker's state for one run: its experiment, its bench, the items in progress.

An item has a place while calls are made for it. When its calls are over, an item that was set aside
takes the place at once, while the results of the first are still being written.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from dragoman.lab.failures import Failure
from dragoman.lab.model import Experiment, Run
from dragoman.lab.repository import Lease
from dragoman.lab.states import RunMode
from dragoman.lab.worker.combiner import LINGER_SECONDS
from dragoman.lab.worker.execution import Allowance, Bench
from dragoman.lab.worker.lease_journal import GIVEN_BACK, Handover
from dragoman.lab.worker.taking import TakenItem

AHEAD_SECONDS, MOST_AHEAD_SECONDS = 0.2, 0.7
"""A worker sets aside what it is going to begin within this time: long enough to write results,
short enough that no other worker waits for an item that this one has not begun."""

MOST_AHEAD = 384
"""Items that are set aside at most."""

FIRST_ROUNDS = 3
"""Items that are set aside for each place before any has ended; slow ones soon go back."""

STALE_SECONDS = 1.0
"""What was set aside and is not begun by then goes back: calls take longer than before."""

PLACE_SECONDS = 4.0
"""How long a place goes from item to item, at least; then a worker that has less to do may have it,
so that new workers get their share. At most twice as long."""

_LEAST_SECONDS = 1e-5
_NEW_WEIGHT = 0.1
"""How much the latest item counts in the mean time of an item."""


def ahead_seconds(write_seconds: float) -> float:
    """How far ahead to set items aside, where a write takes so long.

    What is set aside while one write is done has to last until the next one is.
    """
    return min(max(AHEAD_SECONDS, LINGER_SECONDS + 2 * write_seconds), MOST_AHEAD_SECONDS)


class OpenBench(Protocol):
    """A bench, and how to clear it away."""

    bench: Bench

    def take_up(self, experiment: Experiment) -> None:
        """Go by the experiment's present limits."""
        ...

    async def close(self) -> None: ...


BenchOpener = Callable[[Experiment, RunMode], Awaitable[OpenBench]]
"""Opens what a run in this mode needs of an experiment; raises a `DragomanError` if it cannot."""


@dataclass(slots=True)
class InHand:
    """An item that the worker holds: calls are made for it, or its results are being written."""

    task: asyncio.Task[None]
    begun_at: float
    begun_at_ms: int
    place_until: float
    """When its place is to go back, so that other workers and runs can have it."""
    has_place: bool = True
    place_is_inherited: bool = False
    """Whether it took the place of another item, whose end may not be written yet."""
    over_at: float = 0.0
    """When its calls were over."""
    place_waits: bool = False
    """Its calls are over, and its place waits for the next item."""
    handover: Handover = GIVEN_BACK
    allowance: Allowance | None = None
    """The item's time, once its calls begin."""


class Workplace:
    """One for each run that the worker has items of."""

    def __init__(self, run: Run, experiment: Experiment, opened: OpenBench | Failure) -> None:
        self.run = run
        self.experiment = experiment
        self.opened = opened
        self.evaluator_numbers = experiment.spec.numbers
        self.working: dict[Lease, InHand] = {}
        """Every item in hand."""
        self.ahead: deque[TakenItem] = deque()
        """Items that were set aside for the places here."""
        self.places = 0
        """Places of the run that are this worker's, also those that wait for the next item."""
        self.freed_at: deque[float] = deque(maxlen=1_000)
        """When items ended whose places have not been filled again."""
        self._item_seconds: float | None = None
        self.is_ending = False
        """Whether the run is being ended, and only calls that were begun are let finish."""
        self.set_aside_at = 0.0
        """When the latest of them were set aside."""

    def take_up(self, experiment: Experiment) -> None:
        """Apply the experiment's changes that may be made while it runs."""
        if experiment.spec == self.experiment.spec or isinstance(self.opened, Failure):
            return
        if (experiment.spec.concurrency or 0) < (self.experiment.spec.concurrency or 0):
            for one in self.working.values():
                one.place_until = 0.0  # the driver hands out fewer
        self.experiment = experiment
        self.opened.take_up(experiment)

    @property
    def held(self) -> list[Lease]:
        """Every lease that the worker keeps for the run."""
        return [*self.working, *(one.lease for one in self.ahead)]

    @property
    def begun_at_ms(self) -> list[int]:
        """When each item that has a place was begun."""
        return [one.begun_at_ms for one in self.working.values() if one.has_place]

    def note_item(self, seconds: float) -> None:
        """Take up how long an item had its place."""
        if self._item_seconds is None:
            self._item_seconds = seconds
        else:
            self._item_seconds += _NEW_WEIGHT * (seconds - self._item_seconds)

    @property
    def knows_item_seconds(self) -> bool:
        """Whether an item has ended, so that it is known how long they take."""
        return self._item_seconds is not None

    def missing_ahead(self, soon_seconds: float) -> int:
        """How many more items to set aside: those that are going to begin so soon."""
        if self._item_seconds is None:
            return 0
        soon = self.places * soon_seconds / max(self._item_seconds, _LEAST_SECONDS)
        return max(0, min(int(soon), MOST_AHEAD) - len(self.ahead))

    def set_aside(self, taken: Sequence[TakenItem], now: float) -> None:
        """Keep these for the places that become free next."""
        if taken:
            self.ahead.extend(taken)
            self.set_aside_at = now

    def is_stale(self, now: float) -> bool:
        """Whether items were set aside that should have been begun long ago."""
        return bool(self.ahead) and now - self.set_aside_at > STALE_SECONDS

    def take_ahead(self) -> list[Lease]:
        """Give up what was set aside; the caller hands the leases back."""
        leases = [one.lease for one in self.ahead]
        self.ahead.clear()
        return leases

    @property
    def scores_at_once(self) -> bool:
        """Whether nothing that is called for an output costs anything."""
        return not isinstance(self.opened, Failure) and self.opened.bench.scores_at_once

    @property
    def has_no_share(self) -> bool:
        """Whether other workers have all calls at once that the target takes."""
        return not isinstance(self.opened, Failure) and self.opened.bench.share == 0

    def revoke(self, lease: Lease) -> None:
        """Stop working on an item that is no longer held under this lease."""
        if lease in self.working:
            self.working[lease].task.cancel()
        self.ahead = deque(one for one in self.ahead if one.lease != lease)

    def stop(self) -> None:
        """Stop working on every item of the run."""
        for one in self.working.values():
            one.task.cancel()

    async def close(self) -> None:
        """Wait for the stopped items, then close the target and the evaluators."""
        self.stop()
        tasks = [one.task for one in self.working.values()]
        await asyncio.gather(*tasks, return_exceptions=True)
        if not isinstance(self.opened, Failure):
            await self.opened.close()
