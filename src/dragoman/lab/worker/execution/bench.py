"""What a worker needs for the items of one run: the target, the evaluators, the limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from types import MappingProxyType

import msgspec

from dragoman.clock import Clock
from dragoman.lab.evaluators import ComputesAtOnce, OpenedEvaluator
from dragoman.lab.model import Turn
from dragoman.lab.targets import (
    CachedTarget,
    Output,
    PastTurn,
    Target,
    WithAudio,
)
from dragoman.lab.worker.execution.limiter import Limiter


class WorkLimits(msgspec.Struct, frozen=True):
    """How far a worker goes with one item, and with how many at once."""

    concurrency: int
    retries: int = 2
    item_timeout_seconds: float | None = None
    evaluator_concurrency: int | None = None
    """Calls of one evaluator at once; None: as many as there are items."""


class Bench:
    """One for each run and worker; it is shared by the items that are worked on at once.

    The target and each evaluator have a limiter of their own, so one that is out of breath does
    not hold up the others. The caller closes the target and the evaluators.
    """

    def __init__(
        self,
        target: Target,
        evaluators: Sequence[OpenedEvaluator],
        limits: WorkLimits,
        *,
        clock: Clock,
        random: Random,
        mapping: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.target = target
        self.evaluators = tuple(evaluators)
        self.scores_at_once = all(isinstance(one, ComputesAtOnce) for one in evaluators)
        """Whether no evaluator makes a call that costs anything, or takes long."""
        self.limits = limits
        self.clock = clock
        self.random = random
        self._concurrency = limits.concurrency
        self.target_limiter = Limiter(limits.concurrency, clock, random)
        self.evaluator_limiters = {
            evaluator.name: Limiter(
                limits.evaluator_concurrency or limits.concurrency, clock, random
            )
            for evaluator in evaluators
        }
        self._mapping = mapping
        self.share: int | None = None
        """Calls of the target at once, of what all workers may make; None: no limit."""

    async def call_target(
        self, turn: Turn, history: Sequence[PastTurn], repetition: int = 0
    ) -> Output:
        """The target's answer; a cached one is that of the same repetition, which count from 0."""
        if isinstance(self.target, CachedTarget | WithAudio):
            return await self.target.call(turn, history, repetition)
        return await self.target.call(turn, history)

    def set_concurrency(self, concurrency: int) -> None:
        """Let more or fewer items be worked on at once, from now on."""
        self._concurrency = concurrency
        self._limit_target()
        if self.limits.evaluator_concurrency is None:
            for limiter in self.evaluator_limiters.values():
                limiter.most = concurrency

    def set_share(self, share: int | None) -> None:
        """Call the target no more than so often at once, of what all workers may; None: any."""
        self.share = share
        self._limit_target()

    def _limit_target(self) -> None:
        most = self._concurrency if self.share is None else min(self._concurrency, self.share)
        if most != self.target_limiter.most:
            self.target_limiter.most = most

    def mapped(self, turn: Turn) -> Turn:
        """The turn with its columns also under the names that the experiment uses for them."""
        if not self._mapping:
            return turn
        renamed = {name: turn[own] for name, own in self._mapping.items() if own in turn}
        return {**turn, **renamed}
