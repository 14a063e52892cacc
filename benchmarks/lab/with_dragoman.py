"""One experiment of so many items on SQLite: `python -m benchmarks.lab.with_dragoman ITEMS`.

The target returns what it is given, at once, and one evaluator compares. Besides the time it tells
how long a place stays empty between two items, and what the scheduler's steps cost at the
beginning of the run and at its end.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any, ParamSpec, TypeVar

import uvloop

from benchmarks.lab.measuring import CONCURRENCY, Measured, Stopwatch, items_from_arguments
from dragoman.auth import DEFAULT_TENANT
from dragoman.clock import SystemClock
from dragoman.collector import calm_collector
from dragoman.lab.datasets import Format
from dragoman.lab.feed import RunEnded
from dragoman.lab.library import Library
from dragoman.lab.model import EvaluatorSpec, ExperimentId, ExperimentSpec, TargetSpec
from dragoman.lab.plane import Lab
from dragoman.lab.plugins import Context
from dragoman.lab.roles import EMBEDDED
from dragoman.lab.scheduler import driver, step
from dragoman.lab.states import ENDED
from dragoman.observability import Metrics, configure_logging
from dragoman.randomness import Randomness
from dragoman.settings import LabSettings
from dragoman.store import Store, open_store, upgrade

Given = ParamSpec("Given")
Returned = TypeVar("Returned")

_LOOK_SECONDS = 1.0
_SHARE = 10
"""The first and the last of so many parts of the steps are compared."""
_MOST_AVERAGES = 1_000
_STEP = 1.02


async def echo(text: str) -> str:
    return text


class Costs:
    """The CPU time of each call of a function, on the thread that makes it.

    Kept as averages of as many calls in a row as makes the list short, so that what is measured
    is not the memory of the measurement.
    """

    def __init__(self) -> None:
        self._averages: list[float] = []
        self._calls_in_one = 1
        self._sum_us = 0.0
        self._calls = 0

    def of(self, function: Callable[Given, Returned]) -> Callable[Given, Returned]:
        def timed(*args: Given.args, **kwargs: Given.kwargs) -> Returned:
            began = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self._add((time.thread_time() - began) * 1e6)

        return timed

    def at_both_ends(self) -> tuple[float, float]:
        """What a call cost on average, in the first part of them and in the last."""
        part = max(1, len(self._averages) // _SHARE)
        return mean(self._averages[:part]), mean(self._averages[-part:])

    def _add(self, us: float) -> None:
        self._sum_us += us
        self._calls += 1
        if self._calls < self._calls_in_one:
            return
        self._averages.append(self._sum_us / self._calls)
        self._sum_us, self._calls = 0.0, 0
        if len(self._averages) == _MOST_AVERAGES:
            pairs = zip(self._averages[::2], self._averages[1::2], strict=True)
            self._averages = [mean(pair) for pair in pairs]
            self._calls_in_one *= 2


class Refills:
    """Stands where a histogram does, with much finer steps."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        """By the number of steps of two percent above a microsecond."""

    def observe(self, seconds: float) -> None:
        self._counts[round(math.log(max(seconds, 1e-6) / 1e-6, _STEP))] += 1

    def ms(self, share: float) -> float:
        seen, wanted = 0, share * self._counts.total()
        for steps, count in sorted(self._counts.items()):
            seen += count
            if seen >= wanted:
                return 1e-3 * _STEP**steps
        return 0.0


async def measure(items: int, folder: Path) -> Measured:
    url = f"sqlite:///{folder / 'lab.sqlite'}"
    await asyncio.to_thread(upgrade, url)
    rows = folder / "rows.jsonl"
    with rows.open("w") as file:
        file.writelines(f'{{"text": "sentence {number}"}}\n' for number in range(items))
    async with await open_store(url) as store:
        calm_collector()  # as the lab's process does
        return await _measure(items, rows, store)


async def _measure(items: int, rows: Path, store: Store) -> Measured:
    settings, clock, randomness = LabSettings(), SystemClock(), Randomness()
    steps, scans, refills = Costs(), Costs(), Refills()
    # The functions of a step run in the store's thread; nothing else tells their cost apart.
    patched: Any = driver
    patched.take_step, patched.refill = steps.of(step.take_step), scans.of(step.refill)
    metrics: Any = Metrics()
    metrics.lab_refill = refills
    library = Library(store, settings, clock, randomness.stream("datasets"))
    with rows.open("rb") as file:
        imported = await library.add(DEFAULT_TENANT, "rows", file, Format.JSONL)
    context = Context(functions={"echo": echo}, clock=clock)
    spec = ExperimentSpec(
        name="echo",
        dataset_version_id=imported.version.version_id,
        target=TargetSpec("python", {"function": "echo"}),
        evaluators=(EvaluatorSpec("exact", "exact", settings={"reference": "text"}),),
        concurrency=CONCURRENCY,
    )
    async with Lab(
        store, settings, clock, randomness, metrics, context=context, role=EMBEDDED
    ) as lab:
        watch = Stopwatch()
        made, _ = await lab.experiments.submit(DEFAULT_TENANT, spec)
        await _until_ended(lab, made.experiment_id, items)
        step_first, step_last = steps.at_both_ends()
        scan_first, scan_last = scans.at_both_ends()
        return watch.measured(
            items,
            {
                "step_first_us": step_first,
                "step_last_us": step_last,
                "scan_first_us": scan_first,
                "scan_last_us": scan_last,
                "refill_p50_ms": refills.ms(0.5),
                "refill_p99_ms": refills.ms(0.99),
            },
        )


async def _until_ended(lab: Lab, experiment_id: ExperimentId, items: int) -> None:
    with lab.feed.watch(experiment_id) as watcher:
        while True:
            overview = await lab.experiments.show(DEFAULT_TENANT, experiment_id)
            if overview.experiment.status in ENDED:
                break
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    async for change in watcher:
                        if isinstance(change, RunEnded):
                            break
            except TimeoutError:
                continue
    if overview.stats.success != items:
        raise RuntimeError(f"Only {overview.stats.success} of {items} items went well.")


def main() -> None:
    configure_logging("error", "console")
    loop = uvloop.new_event_loop  # as the lab inside `serve`
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=loop) as runner:
        runner.run(measure(items_from_arguments(), Path(folder))).tell()


if __name__ == "__main__":
    main()
