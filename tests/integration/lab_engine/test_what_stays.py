"""What a lab's process keeps of experiments that were run and deleted: nothing."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter

from tests.integration.lab_engine.laboratory import (
    TENANT,
    Laboratory,
    add_items,
    experiment,
    laboratory,
)
from tests.servers import TWO_DATABASES

from dragoman.lab.feed import RunEnded
from dragoman.lab.model import JsonValue, VersionId
from dragoman.lab.repository import ending, runs
from dragoman.lab.results import Results
from dragoman.lab.states import ACTIVE

DATABASE_KINDS = TWO_DATABASES

WARM_UP, FURTHER = 10, 30
"""Experiments before the first count, when caches are filled, and between the two counts."""


async def _run_and_delete(at: Laboratory, version_id: VersionId, number: int) -> None:
    """Run an experiment as a watcher follows it; kill every third; delete it."""
    items = at.lab.experiments
    target = "hang" if number % 3 == 0 else "answer"
    spec = experiment(version_id, target, {"length": "judge"})
    made, started = await items.submit(TENANT, spec)
    with at.lab.feed.watch(made.experiment_id) as watcher:
        if target == "hang":
            await items.kill(TENANT, made.experiment_id)
        async with asyncio.timeout(60):
            while (await items.show(TENANT, made.experiment_id)).experiment.status in ACTIVE:
                if isinstance(await anext(watcher), RunEnded):
                    break
    await at.ended(started.run_id)
    await items.delete(TENANT, made.experiment_id)


async def _settled(at: Laboratory) -> None:
    """Wait until the scheduler and the worker have left every run."""
    scheduler, worker = at.lab._scheduler, at.lab._worker
    async with asyncio.timeout(60):
        while scheduler._drives or scheduler._own or worker._places or worker._leaving:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def _objects() -> Counter[str]:
    """How many objects of Dragoman's own classes, tasks and futures there are."""
    gc.collect()
    counted: Counter[str] = Counter()
    for one in gc.get_objects():
        kind = type(one)
        if str(kind.__module__).startswith(("dragoman", "asyncio", "_asyncio")):
            counted[f"{kind.__module__}.{kind.__qualname__}"] += 1
    return counted


def test_a_deleted_experiment_leaves_no_object_behind(sqlite_url: str, calls: str) -> None:
    async def story() -> tuple[Counter[str], Counter[str]]:
        async with laboratory(sqlite_url) as at:
            row: dict[str, JsonValue] = {
                "key": "a",
                "calls": calls,
                "delay_ms": 0,
                "fate": "",
            }
            version_id, _ = await add_items(at.store, [[{**row, "turn": 0}, {**row, "turn": 1}]])
            counts = []
            for number in range(WARM_UP + FURTHER):
                if number == WARM_UP:
                    await _settled(at)
                    counts.append(_objects())
                await _run_and_delete(at, version_id, number)
            await _settled(at)
            counts.append(_objects())
            return counts[0], counts[1]

    before, after = asyncio.run(story())

    grown = {kind: more for kind, more in (after - before).items() if more >= FURTHER // 3}
    assert grown == {}


def test_aggregates_that_come_after_the_deletion_are_not_kept(
    database_url: str, calls: str
) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            row: dict[str, JsonValue] = {"key": "a", "calls": calls, "delay_ms": 0, "fate": ""}
            version_id, _ = await add_items(at.store, [[{**row, "turn": 0}]])
            spec = experiment(version_id, "answer", {"length": "judge"})
            made, started = await at.lab.experiments.submit(TENANT, spec)
            await at.ended(started.run_id)
            run = await at.store.read(lambda c: runs.find_run(c, started.run_id))
            assert run is not None
            found = await Results(at.store).aggregates(TENANT, made.experiment_id)
            await _settled(at)
            await at.lab.experiments.delete(TENANT, made.experiment_id)
            await at.store.write(lambda c: ending.keep_aggregates(c, run, found))
            assert await at.rows("SELECT run_id FROM experiment_aggregate") == []

    asyncio.run(story())
