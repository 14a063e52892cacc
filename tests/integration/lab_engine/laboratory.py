"""A lab for a test: a database with items, quick leases, and ways to wait for what matters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import sqlalchemy as sa

from dragoman.clock import SystemClock
from dragoman.ids import TenantId, new_id
from dragoman.lab.feed import RunEnded
from dragoman.lab.model import (
    DatasetId,
    DatasetVersion,
    EvaluatorSpec,
    Experiment,
    ExperimentSpec,
    Item,
    ItemId,
    JsonValue,
    RunId,
    TargetSpec,
    VersionId,
    item_id,
    new_item_batch,
)
from dragoman.lab.plane import Lab
from dragoman.lab.plugins import Context
from dragoman.lab.repository import datasets, runs
from dragoman.lab.states import ENDED, RunStatus
from dragoman.observability import Metrics
from dragoman.randomness import Randomness
from dragoman.settings import LabSettings
from dragoman.store import Store, StoreConnection, open_store

TENANT = TenantId("acme")
QUICK = LabSettings(lease_seconds=1.2, safety_tick_ms=50, item_concurrency=4)
"""For labs that are killed or paused: what they held is free again soon."""
HELD = QUICK.model_copy(update={"lease_seconds": 4.0})
"""For labs that must keep what they hold: a machine that stands still for two seconds, as busy ones
do, is no reason to lose it."""
STEADY = QUICK.model_copy(update={"lease_seconds": 60.0})
"""For labs that are left alone: a busy machine takes no item from them."""
PATIENCE_SECONDS = 60.0
LONGEST_PAUSE_SECONDS = 0.08
HERE = "tests.integration.lab_engine.targets"

Turns = Sequence[Mapping[str, JsonValue]]


class Laboratory:
    """A lab on a database of the test's own."""

    def __init__(self, store: Store, lab: Lab, metrics: Metrics) -> None:
        self.store = store
        self.lab = lab
        self.metrics = metrics

    async def run(self, spec: ExperimentSpec) -> Experiment:
        """Submit an experiment and wait for its end."""
        made, started = await self.lab.experiments.submit(TENANT, spec)
        await self.ended(started.run_id)
        return made

    async def ended(self, run_id: RunId) -> RunStatus:
        """Wait until a run is over."""
        status: RunStatus | None = None

        async def over() -> bool:
            nonlocal status
            run = await self.store.read(lambda c: runs.find_run(c, run_id))
            status = run.status if run else None
            return status in ENDED

        await until(over)
        assert status is not None
        return status

    async def rows(self, sql: str, **values: Any) -> list[Any]:
        """What a query answers."""
        return await read(self.store, sql, **values)


async def until(
    condition: Callable[[], Awaitable[bool]], patience_seconds: float = PATIENCE_SECONDS
) -> None:
    """Wait until a condition holds."""
    pause_seconds = 0.01
    async with asyncio.timeout(patience_seconds):
        while not await condition():
            await asyncio.sleep(pause_seconds)
            # Where it takes long the machine is busy, and looking makes it no quicker.
            pause_seconds = min(1.2 * pause_seconds, LONGEST_PAUSE_SECONDS)


async def read(store: Store, sql: str, **values: Any) -> list[Any]:
    def select(connection: StoreConnection) -> list[Any]:
        return [tuple(row) for row in connection.execute(sa.text(sql), values).all()]

    return await store.read(select)


@asynccontextmanager
async def laboratory(
    url: str, settings: LabSettings = STEADY, **options: Any
) -> AsyncIterator[Laboratory]:
    """A lab at work on the database, stopped when the test is done with it."""
    metrics = Metrics()
    async with await open_store(url, silence_seconds=settings.lease_seconds) as store:
        options.setdefault("context", Context())
        clock = options.pop("clock", None) or SystemClock()
        lab = Lab(store, settings, clock, Randomness(), metrics, **options)
        async with lab:
            yield Laboratory(store, lab, metrics)


async def add_items(store: Store, items: Sequence[Turns]) -> tuple[VersionId, list[ItemId]]:
    """Store a dataset; its version, and the ids of its items in order."""
    random = Random()
    batch = new_item_batch(random)
    version_id = VersionId(new_id(random, "v"))
    dataset_id = DatasetId(new_id(random, "d"))
    made = [Item(item_id(batch, n), tuple(turns)) for n, turns in enumerate(items)]
    columns: dict[str, JsonValue] = {name: {} for turns in items for turn in turns for name in turn}
    version = DatasetVersion(
        version_id=version_id,
        dataset_id=dataset_id,
        version=1,
        schema={"properties": columns},
        items=len(made),
        max_turns=max((len(turns) for turns in items), default=0),
        created_at_ms=0,
    )

    def insert(connection: StoreConnection) -> None:
        if made:
            datasets.insert_items(connection, TENANT, version_id, made)
        datasets.insert_dataset(connection, TENANT, dataset_id, dataset_id, 0)
        datasets.insert_version(connection, TENANT, version)

    await store.write(insert)
    return version_id, [item.item_id for item in made]


def experiment(
    version_id: VersionId | None,
    target: str,
    evaluators: Mapping[str, str] | None = None,
    **options: Any,
) -> ExperimentSpec:
    """An experiment on functions of this folder."""
    return ExperimentSpec(
        name=options.pop("name", None) or new_id(Random(), "experiment"),
        dataset_version_id=version_id,
        target=TargetSpec("python", {"function": f"{HERE}:{target}"}),
        evaluators=tuple(
            EvaluatorSpec("python", name, settings={"function": f"{HERE}:{function}"})
            for name, function in (evaluators or {}).items()
        ),
        **options,
    )


def is_end(change: object) -> bool:
    return isinstance(change, RunEnded)
