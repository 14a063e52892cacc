"""Real runs with a mirror beside them: whatever is killed or away, it has what the database has."""

from __future__ import annotations

import asyncio
import multiprocessing
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random

import pytest
from tests.chaos_seeds import chaos_seeds
from tests.contract.lab_mirror.world import agree, every_row, followed
from tests.integration.lab_engine.laboratory import (
    QUICK,
    TENANT,
    add_items,
    experiment,
    laboratory,
    read,
    until,
)
from tests.integration.lab_engine.targets import note, noted
from tests.servers.clickhouse import ClickHouseProcess

from dragoman.ids import new_id
from dragoman.lab.mirror import Following
from dragoman.lab.model import ExperimentId, JsonValue
from dragoman.lab.owners import new_owner
from dragoman.lab.results import Results
from dragoman.observability import Metrics
from dragoman.store import Store, open_store

SEEDS = chaos_seeds(2, first=20_261_201)
ITEMS = 12
REPETITIONS = 2
MOST_LIVES = 60
_CONTEXT = multiprocessing.get_context("forkserver")
# The modules are imported once, by a server that the processes are forked from.
_CONTEXT.set_forkserver_preload(
    ["tests.contract.lab_mirror.world", "tests.integration.lab_engine.laboratory"]
)


def cases(calls: str, seed: int, delays_ms: tuple[int, ...]) -> list[list[dict[str, JsonValue]]]:
    """Items of one or two turns, some of which fail, always in the same way."""
    random = Random(seed)
    fates = ("well", "well", "target_fails", "evaluator_fails")
    return [
        [
            {
                "key": f"k{number}",
                "turn": turn,
                "calls": calls,
                "delay_ms": random.choice(delays_ms),
                "fate": random.choice(fates),
            }
            for turn in range(random.choice((1, 2)))
        ]
        for number in range(ITEMS)
    ]


async def submitted(url: str, calls: str, seed: int, delays_ms: tuple[int, ...]) -> ExperimentId:
    async with laboratory(url, schedules=False, works=False) as idle:
        version, _ = await add_items(idle.store, cases(calls, seed, delays_ms))
        spec = experiment(version, "answer", {"length": "judge"}, repetitions=REPETITIONS)
        made, _ = await idle.lab.experiments.submit(TENANT, spec)
        return made.experiment_id


async def has_ended(store: Store) -> bool:
    return await read(store, "SELECT 1 FROM run_log WHERE ended_at_ms IS NULL") == []


@pytest.mark.parametrize("seed", SEEDS)
def test_after_kill_9_at_any_moment_of_a_run_mirror_and_store_agree(
    seed: int, database_url: str, mirror_url: str, tmp_path: Path
) -> None:
    """A lab with its mirror is killed again and again until the run is over all the same."""
    random = Random(seed)
    calls = str(tmp_path / "calls")
    experiment_id = asyncio.run(submitted(database_url, calls, seed, (0, 5, 30)))
    lives = str(tmp_path / "lives")
    for life in range(MOST_LIVES):
        process = _CONTEXT.Process(
            target=_live, args=(database_url, mirror_url, lives), daemon=True
        )
        process.start()
        while len(noted(lives)) <= life:
            process.join(0.01)
        # On a busy machine little is done in a second; later lives are longer.
        process.join(random.random() * (1.5 + life / 4))
        process.kill()
        process.join()
        process.close()
        if asyncio.run(_is_over(database_url)):
            break
    else:
        pytest.fail(f"the run was not over after {MOST_LIVES} lives; seed {seed}")
    asyncio.run(_check(database_url, mirror_url, experiment_id))


def _live(url: str, mirror_url: str, lives: str) -> None:
    asyncio.run(_work(url, mirror_url, lives))


async def _work(url: str, mirror_url: str, lives: str) -> None:
    async with laboratory(url, QUICK) as at:
        note(lives, "at work")
        async with _followed(at.store, mirror_url):
            await asyncio.Event().wait()


def _followed(
    store: Store, mirror_url: str
) -> AbstractAsyncContextManager[tuple[Following, Metrics]]:
    # The owner tells which process it is: the lease of one that was killed is free at once.
    return followed(store, mirror_url, owner=new_owner(Random()), mirror_id=new_id(Random(), "m"))


async def _is_over(url: str) -> bool:
    async with await open_store(url) as store:
        return await has_ended(store)


async def _check(url: str, mirror_url: str, experiment_id: ExperimentId) -> None:
    async with await open_store(url) as store, _followed(store, mirror_url) as (following, _):
        await agree(store, following, experiment_id)
        rows = await every_row(Results(store), experiment_id)
        assert {row.repetition for row in rows} == set(range(1, REPETITIONS + 1))
        assert all(row.status in ("success", "fail") for row in rows)


def test_a_mirror_that_is_away_during_a_run_misses_nothing_of_it(
    database_url: str, tmp_path: Path
) -> None:
    pytest.importorskip("chdb", reason="chdb is not installed")
    server = ClickHouseProcess(tmp_path / "clickhouse")
    if server.given:
        pytest.skip("a server that is given is not ours to kill")
    server.start()
    try:
        asyncio.run(_run_without_mirror(database_url, server, str(tmp_path / "calls")))
    finally:
        server.kill()


async def _run_without_mirror(url: str, server: ClickHouseProcess, calls: str) -> None:
    async def is_ready() -> bool:
        return following.ready

    async def some_calls() -> bool:
        return len(noted(calls)) >= 10

    async with (
        laboratory(url) as at,
        _followed(at.store, server.fresh_database()) as (following, metrics),
    ):
        await until(is_ready)
        version, _ = await add_items(at.store, cases(calls, SEEDS[0], (100,)))
        spec = experiment(version, "answer", {"length": "judge"}, repetitions=REPETITIONS)
        made, _ = await at.lab.experiments.submit(TENANT, spec)
        experiment_id = made.experiment_id
        await until(some_calls)
        server.kill()
        results = Results(at.store, following)
        await until(lambda: has_ended(at.store))
        # The database answers meanwhile, and tells by how much the mirror is behind.
        rows = await every_row(results, experiment_id)
        assert rows == await every_row(Results(at.store), experiment_id)
        await until(lambda: _is_told(metrics, behind=True))
        server.start()
        await agree(at.store, following, experiment_id)
        await until(lambda: _is_told(metrics, behind=False))


async def _is_told(metrics: Metrics, *, behind: bool) -> bool:
    return (b"\nlab_mirror_lag_rows 0.0" not in metrics.exposition()) is behind
