"""Where the steps of an item are written down, each before the next one begins."""

from __future__ import annotations

from typing import Protocol

from dragoman.lab.evaluators import Score
from dragoman.lab.failures import Failure
from dragoman.lab.targets import Output
from dragoman.lab.worker.execution.outcomes import ItemOutcome


class Journal(Protocol):
    """The record of one item under one lease.

    Each call returns when its entry is stored, so that work that was paid for is never paid for
    again; an output that is followed only by evaluators that compute at once may be on its way.
    Any of them raises `Revoked` when the lease is lost. Reused outputs and scores are not entered
    again; they appear in the outcome of the try.
    """

    async def target_done(self, turn_no: int, result: Output | Failure) -> None: ...

    async def evaluator_done(self, turn_no: int, name: str, result: Score | Failure) -> None: ...

    async def try_over(self, outcome: ItemOutcome, *, last: bool) -> None:
        """A try has ended; `last` when the item has, too."""
        ...
