"""Opening what a worker needs for a run: the target, the evaluators, their limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from random import Random

import msgspec

from dragoman.lab.evaluators import FunctionProcessPool, OpenedEvaluator, open_evaluator
from dragoman.lab.failures import TargetError
from dragoman.lab.model import Experiment, ExperimentSpec, Turn
from dragoman.lab.plugins import Context
from dragoman.lab.response_cache import TenantAnswers
from dragoman.lab.states import RunMode
from dragoman.lab.targets import (
    Output,
    PastTurn,
    Target,
    WithAudio,
    open_target,
)
from dragoman.lab.worker import Bench, WorkLimits
from dragoman.settings import LabSettings
from dragoman.store import Store

REHEARSAL_SECONDS = 240.0
"""How long an item that is only tried may take at most: a person waits for it."""


class Uncalled:
    """Stands for the target of a run that only scores: outputs that are stored, or none."""

    async def call(self, turn: Turn, history: Sequence[PastTurn]) -> Output:
        raise TargetError(
            "There is no stored output, and a run that only scores makes none.", retryable=False
        )

    async def close(self) -> None:
        pass


class LabBench:
    """The bench of one run, with its opened target and evaluators."""

    def __init__(
        self,
        bench: Bench,
        target: Target,
        evaluators: Sequence[OpenedEvaluator],
        settings: LabSettings,
    ) -> None:
        self.bench = bench
        self._target = target
        self._evaluators = evaluators
        self._settings = settings

    def take_up(self, experiment: Experiment) -> None:
        limits = limits_of(experiment, self._settings)
        self.bench.limits = limits
        self.bench.set_concurrency(limits.concurrency)

    async def close(self) -> None:
        await asyncio.gather(
            self._target.close(), *(evaluator.close() for evaluator in self._evaluators)
        )


class BenchMaker:
    """Opens benches in one context, which says what all experiments may reach."""

    def __init__(
        self,
        store: Store,
        settings: LabSettings,
        context: Context,
        processes: FunctionProcessPool,
        random: Random,
        audio_columns: Callable[[ExperimentSpec], Awaitable[Sequence[str]]],
    ) -> None:
        """`audio_columns` returns the columns of an experiment's dataset that are audio."""
        self._store = store
        self._settings = settings
        self._audio_columns = audio_columns
        self._context = context
        self._processes = processes
        self._random = random

    async def open(self, experiment: Experiment, mode: RunMode) -> LabBench:
        """The bench of an experiment; raises what is wrong with its target or evaluators."""
        spec = experiment.spec
        answers = TenantAnswers(self._store, experiment.tenant, self._context.clock)
        context = replace(self._context.at(spec.modules), answers=answers, tenant=experiment.tenant)
        target: Target = Uncalled()
        if mode is not RunMode.SCORE:
            target = self._open_target(spec, context, await self._audio_columns(spec))
        return self._bench(experiment, target, context, limits_of(experiment, self._settings))

    def open_rehearsal(self, experiment: Experiment, audio_columns: Sequence[str]) -> LabBench:
        """A bench for items that are only tried: once, and with no answer kept or found.

        The experiment and its dataset need not be stored.
        """
        context = replace(self._context.at(experiment.spec.modules), tenant=experiment.tenant)
        limits = limits_of(experiment, self._settings)
        seconds = limits.item_timeout_seconds or REHEARSAL_SECONDS
        limits = msgspec.structs.replace(
            limits, retries=0, item_timeout_seconds=min(seconds, REHEARSAL_SECONDS)
        )
        target = self._open_target(experiment.spec, context, audio_columns)
        return self._bench(experiment, target, context, limits)

    def _bench(
        self, experiment: Experiment, target: Target, context: Context, limits: WorkLimits
    ) -> LabBench:
        spec = experiment.spec
        evaluators = [open_evaluator(one, context, self._processes) for one in spec.evaluators]
        bench = Bench(
            target,
            evaluators,
            limits,
            clock=context.clock,
            random=self._random,
            mapping=spec.mapping,
        )
        return LabBench(bench, target, evaluators, self._settings)

    def _open_target(
        self, spec: ExperimentSpec, context: Context, columns: Sequence[str]
    ) -> Target:
        target = open_target(spec.target, context, cache=spec.cache)
        if columns and context.audio_folder is not None:
            named = {name for name, own in spec.mapping.items() if own in columns}
            target = WithAudio(target, {*columns, *named}, context.audio_folder)
        return target


def limits_of(experiment: Experiment, settings: LabSettings) -> WorkLimits:
    """The experiment's limits; those it does not set come from the settings."""
    spec = experiment.spec
    asked = spec.concurrency or settings.item_concurrency
    return WorkLimits(
        concurrency=min(asked, settings.max_item_concurrency),
        retries=spec.retries,
        item_timeout_seconds=spec.item_timeout_seconds or settings.item_timeout_seconds,
        evaluator_concurrency=spec.evaluator_concurrency,
    )
