"""A lab whose items no worker takes shows it in its metrics."""

from __future__ import annotations

import asyncio
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from tests.integration.lab_engine.laboratory import (
    QUICK,
    TENANT,
    Laboratory,
    add_items,
    experiment,
    laboratory,
    until,
)

from dragoman.store import upgrade


def test_items_that_no_worker_takes_are_offered_again_and_counted(tmp_path: Path) -> None:
    database_url = f"sqlite:///{tmp_path}/dragoman.db"
    upgrade(database_url)

    async def story() -> None:
        async with laboratory(database_url, QUICK, works=False) as at:
            version, _ = await add_items(at.store, [[{"key": "k", "calls": "unused"}]])
            await at.lab.experiments.submit(TENANT, experiment(version, "answer_when_released"))

            async def offered_twice() -> bool:
                return counted(at) >= 2

            await until(offered_twice)

    asyncio.run(story())


def counted(at: Laboratory) -> float:
    for family in text_string_to_metric_families(at.metrics.exposition().decode()):
        for sample in family.samples:
            if sample.name == "lab_items_offered_again_total":
                return sample.value
    raise AssertionError("the metric is not exposed")
