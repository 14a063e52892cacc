"""Runs of scenarios, one after another or spread over the cores of the machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from types import TracebackType
from typing import Any, Self

from dragoman.observability import configure_logging
from dragoman.simulation.figures import RunFigures, run_figures
from dragoman.simulation.scenario import Scenario
from dragoman.simulation.world import Prepare, play

OnShare = Callable[[float], None]
"""Called now and then with how much of all runs is done, in runs."""

_LOOK_SECONDS = 0.1
_MOST_AT_ONCE = 256
"""Runs whose progress is followed at a time."""


def cores() -> int:
    """How many runs this machine can play at a time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def simulate(
    scenario: Scenario,
    *,
    seeds: Sequence[int] = (0,),
    processes: int = 1,
    on_share: OnShare | None = None,
) -> list[RunFigures]:
    """Play a scenario once for each seed; the answers are in the order of the seeds."""
    with Runner(min(processes, len(seeds))) as runner:
        return runner.run([(scenario, seed) for seed in seeds], on_share)


def simulate_once(
    scenario: Scenario,
    seed: int = 0,
    on_progress: Callable[[float], None] | None = None,
    prepare: Prepare | None = None,
) -> RunFigures:
    """Play a scenario here and now, together with what `prepare` adds to it."""
    return run_figures(scenario, seed, play(scenario, seed, on_progress, prepare))


class Runner:
    """Plays runs, over so many processes; one means: in this process."""

    def __init__(self, processes: int = 1) -> None:
        self._processes = processes
        self._pool: ProcessPoolExecutor | None = None
        self._shares: Any = None

    def __enter__(self) -> Self:
        if self._processes > 1:
            # Started anew, not forked: a fork would copy whatever else this process has begun.
            context = get_context("spawn")
            self._shares = context.Array("d", _MOST_AT_ONCE, lock=False)
            self._pool = ProcessPoolExecutor(
                self._processes, context, initializer=_prepare, initargs=(self._shares,)
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is None:
            return
        if error is not None:
            for process in list(self._pool._processes.values()):
                process.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def run(
        self, runs: Sequence[tuple[Scenario, int]], on_share: OnShare | None = None
    ) -> list[RunFigures]:
        """Play every (scenario, seed); the answers are in the same order."""
        found: list[RunFigures] = []
        for start in range(0, len(runs), _MOST_AT_ONCE):
            part = runs[start : start + _MOST_AT_ONCE]
            found += (
                self._here(part, start, on_share)
                if self._pool is None
                else self._there(self._pool, part, start, on_share)
            )
        return found

    def _here(
        self, runs: Sequence[tuple[Scenario, int]], done: int, on_share: OnShare | None
    ) -> list[RunFigures]:
        found: list[RunFigures] = []
        for scenario, seed in runs:
            before = done + len(found)
            told = None if on_share is None else _adding(on_share, before)
            found.append(simulate_once(scenario, seed, told))
            if on_share is not None:
                on_share(before + 1)
        return found

    def _there(
        self,
        pool: ProcessPoolExecutor,
        runs: Sequence[tuple[Scenario, int]],
        done: int,
        on_share: OnShare | None,
    ) -> list[RunFigures]:
        for place in range(len(runs)):
            self._shares[place] = 0.0
        futures: list[Future[RunFigures]] = [
            pool.submit(_play_there, scenario, seed, place)
            for place, (scenario, seed) in enumerate(runs)
        ]
        left: set[Future[RunFigures]] = set(futures)
        while left:
            _, left = wait(left, timeout=_LOOK_SECONDS)
            if on_share is not None:
                on_share(done + sum(self._shares[: len(runs)]))
        return [future.result() for future in futures]


def _adding(on_share: OnShare, before: float) -> OnShare:
    return lambda share: on_share(before + share)


_shares_here: Any = None


def _prepare(shares: Any) -> None:
    """Begin a process that plays runs."""
    global _shares_here  # noqa: PLW0603  # how a pool hands shared memory to its processes
    _shares_here = shares
    # The process that the user stops ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    configure_logging("error", "console")


def _play_there(scenario: Scenario, seed: int, place: int) -> RunFigures:
    def told(share: float) -> None:
        _shares_here[place] = share

    figures = simulate_once(scenario, seed, told)
    told(1.0)
    return figures
