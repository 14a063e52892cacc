"""Any process may die at any moment: what comes out is what would have come out anyway."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest
import sqlalchemy as sa
from tests.chaos_seeds import chaos_seeds
from tests.integration.lab_engine.crash_story import (
    SEED,
    Snapshot,
    cases,
    every_try_was_archived_once,
    snapshot,
)
from tests.integration.lab_engine.laboratory import (
    QUICK,
    TENANT,
    add_items,
    experiment,
    laboratory,
    read,
    until,
)
from tests.integration.lab_engine.processes import LabProcess
from tests.integration.lab_engine.targets import noted, touch
from tests.servers import DATABASES

from dragoman.errors import StoreError
from dragoman.lab.model import ItemId
from dragoman.lab.repository.tables import item_run_log
from dragoman.lab.states import ENDED
from dragoman.store import Store, StoreConnection, open_store, upgrade

SEEDS = chaos_seeds(9, first=SEED)
"""Three for each database; `make chaos` draws many more."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """What comes out when no process is killed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    url = f"sqlite:///{folder}/dragoman.db"
    upgrade(url)

    async def story() -> Snapshot:
        async with laboratory(url) as at:
            version, ids = await add_items(at.store, cases(str(folder / "calls")))
            made = await at.run(experiment(version, "answer", {"length": "judge"}))
            return await snapshot(at.store, made.experiment_id, ids)

    return asyncio.run(story())


@pytest.mark.parametrize(
    ("database_url", "seed"),
    [(DATABASES[number % len(DATABASES)], seed) for number, seed in enumerate(SEEDS)],
    indirect=["database_url"],
)
def test_a_kill_at_a_random_moment_changes_nothing_that_users_see(
    database_url: str, tmp_path: Path, undisturbed: Snapshot, seed: int
) -> None:
    random = Random(seed)
    calls = str(tmp_path / "calls")
    victims = random.choice((("scheduler",), ("worker",), ("scheduler", "worker")))
    moment_seconds = random.uniform(0.0, 0.6)

    async def story() -> None:
        async with await open_store(database_url) as store:
            version, ids = await add_items(store, cases(calls))
            spec = experiment(version, "answer", {"length": "judge"})
            async with laboratory(database_url, schedules=False, works=False) as idle:
                made, _ = await idle.lab.experiments.submit(TENANT, spec)
            with ExitStack() as stack:
                alive = {role: stack.enter_context(_process(database_url, role)) for role in ROLES}
                await until(lambda: _started(store))
                await asyncio.sleep(moment_seconds)
                for role in victims:
                    alive[role].kill()
                logged = await _logged_outputs(store, ids) if "worker" in victims else set()
                called_before = len(noted(calls))
                for role in victims:
                    stack.enter_context(_process(database_url, role))
                await until(lambda: _ended(store))

                called_after = noted(calls)[called_before:]
                assert not logged & set(called_after), "called again after its success was logged"
                assert await snapshot(store, made.experiment_id, ids) == undisturbed
                await every_try_was_archived_once(store)

    asyncio.run(story())


def test_everything_killed_again_and_again_still_comes_to_the_same_end(
    database_url: str, tmp_path: Path, undisturbed: Snapshot
) -> None:
    """Three kills, each of everything: an item has as many tries, so none is lost for good."""
    calls = str(tmp_path / "calls")

    async def story() -> None:
        async with await open_store(database_url) as store:
            version, ids = await add_items(store, cases(calls))
            spec = experiment(version, "answer", {"length": "judge"}, retries=10)
            async with laboratory(database_url, schedules=False, works=False) as idle:
                made, _ = await idle.lab.experiments.submit(TENANT, spec)
            for moment_seconds in (0.05, 0.1, 0.15):
                with LabProcess(database_url):
                    await until(lambda: _started(store))
                    await asyncio.sleep(moment_seconds)
            with LabProcess(database_url):
                await until(lambda: _ended(store))
            assert await snapshot(store, made.experiment_id, ids) == undisturbed
            await every_try_was_archived_once(store)

    asyncio.run(story())


def test_a_start_whose_process_died_at_once_is_taken_up(database_url: str, calls: str) -> None:
    """Nothing but the pending run is there: no lock is left, and the next lab drives it."""

    async def story() -> None:
        async with laboratory(database_url, schedules=False, works=False) as dead:
            version, _ = await add_items(dead.store, cases(calls)[:2])
            _, started = await dead.lab.experiments.submit(TENANT, experiment(version, "answer"))
        async with laboratory(database_url) as at:
            assert await at.ended(started.run_id) in ENDED

    asyncio.run(story())


def test_a_worker_paused_past_its_lease_is_refused_and_counted(
    database_url: str, tmp_path: Path, calls: str
) -> None:
    metrics = tmp_path / "metrics"

    async def story() -> None:
        async with laboratory(database_url, QUICK, works=False) as at:
            version, _ = await add_items(at.store, [[{"key": "k", "calls": calls}]])
            spec = experiment(version, "answer_when_released")
            _, started = await at.lab.experiments.submit(TENANT, spec)
            with LabProcess(database_url, schedules=False, metrics=str(metrics)) as paused:
                await until(lambda: _called(calls, 1))
                await _pause_between_transactions(paused, at.store)
                touch(f"{calls}.released")
                with LabProcess(database_url, schedules=False):
                    await at.ended(started.run_id)
                assert len(noted(calls)) > 1
                before = await snapshot_of(at.store)
                assert b"lab_zombies_total 0.0" not in at.metrics.exposition()
                paused.resume()

                async def refused() -> bool:
                    told = metrics.read_bytes() if metrics.exists() else b""
                    return b"\nlab_fenced_writes_total 1.0" in told

                await until(refused)
                assert await snapshot_of(at.store) == before

    asyncio.run(story())


ROLES = ("scheduler", "worker")
LOCKED_SECONDS = 3.0


def _process(url: str, role: str) -> LabProcess:
    return LabProcess(url, schedules=role == "scheduler", works=role == "worker")


async def snapshot_of(store: Store) -> list[Any]:
    tables = ("item_result", "turn_result", "item_run_log", "turn_run_log", "target_record")
    return [sorted(map(repr, await read(store, f"SELECT * FROM {table}"))) for table in tables]


async def _pause_between_transactions(process: LabProcess, store: Store) -> None:
    """Pause a worker where it holds no lock of the database: that would stop everybody."""

    def change(connection: StoreConnection) -> None:
        connection.execute(sa.update(item_run_log).values(try_no=item_run_log.c.try_no)).close()

    while True:
        process.pause()
        try:
            async with asyncio.timeout(LOCKED_SECONDS):
                await store.write(change)
            return
        except (TimeoutError, StoreError):
            process.resume()


async def _called(calls: str, times: int) -> bool:
    return len(noted(calls)) >= times


async def _started(store: Store) -> bool:
    return bool(await read(store, "SELECT 1 FROM run_log WHERE status <> 'pending'"))


async def _ended(store: Store) -> bool:
    return bool(await read(store, "SELECT 1 FROM run_log WHERE ended_at_ms IS NOT NULL"))


async def _logged_outputs(store: Store, ids: list[ItemId]) -> set[str]:
    place = {item_id: number for number, item_id in enumerate(ids)}
    rows = await read(store, "SELECT item_id, turn_no FROM target_record")
    return {f"k{place[item_id]}/{turn_no}" for item_id, turn_no in rows}
