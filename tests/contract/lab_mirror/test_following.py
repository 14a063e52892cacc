"""A mirror follows its database: through changes, crashes, and times when either is away."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import sqlalchemy as sa
from tests.chaos_seeds import chaos_seeds
from tests.contract.lab_mirror.world import (
    TENANT,
    World,
    agree,
    asked_of,
    contents_of,
    every_row,
    followed,
    in_a_loop,
    mirror_query,
    plain,
    ready,
    world,
)
from tests.servers.clickhouse import ClickHouseProcess

from dragoman.errors import InvalidFilter
from dragoman.lab.filters import Condition, Op, parse_filter
from dragoman.lab.mirror import (
    MirrorAway,
    TooSlow,
    clickhouse_mirror,
    duckdb_mirror,
    open_mirror,
    result_places,
)
from dragoman.lab.mirror.queries import Query
from dragoman.lab.model import ExperimentId
from dragoman.lab.repository import expiring, mirroring
from dragoman.lab.results import GroupedAggregates, Outcomes, Results
from dragoman.store import Store, StoreConnection, open_store

SEEDS = chaos_seeds(2, first=20_261_115)
LIVES = 3
_CONTEXT = multiprocessing.get_context("forkserver")
# The modules are imported once, by a server that the processes are forked from.
_CONTEXT.set_forkserver_preload(["tests.contract.lab_mirror.world"])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what is waited for may be in a process
            await asyncio.sleep(0.01)


async def total_changes(store: Store) -> int:
    return await store.read(lambda c: mirroring.count_changes(c, 10_000))


@in_a_loop
async def test_changes_reach_the_mirror_and_are_crossed_out(
    database_url: str, mirror_url: str
) -> None:
    async with world(database_url, 1) as at, followed(at.store, mirror_url) as (following, _):
        experiment_id = await at.new_experiment(5)
        await agree(at.store, following, experiment_id)
        await at.add_items(experiment_id, 5)
        await at.change_some(experiment_id)
        assert await total_changes(at.store) > 0
        await agree(at.store, following, experiment_id)
        assert await total_changes(at.store) == 0


@in_a_loop
async def test_nothing_is_noted_while_no_mirror_follows(database_url: str) -> None:
    async with world(database_url, 1) as at:
        await at.new_experiment(5)
        assert await total_changes(at.store) == 0


@in_a_loop
async def test_a_deleted_experiment_leaves_the_mirror(database_url: str, mirror_url: str) -> None:
    async with world(database_url, 1) as at, followed(at.store, mirror_url) as (following, _):
        gone = await at.new_experiment(5)
        stays = await at.new_experiment(5)
        mirror = await ready(following, gone)

        def delete(connection: StoreConnection) -> None:
            connection.execute(sa.text("DELETE FROM experiment WHERE id = :e"), {"e": gone})

        await at.store.write(delete)
        await ready(following, gone)
        assert contents_of(mirror, gone) == {}
        assert mirror_query(mirror, f"SELECT * FROM lab_slot WHERE experiment_id = '{gone}'") == []
        await agree(at.store, following, stays)


@in_a_loop
async def test_items_that_are_removed_leave_the_mirror(database_url: str, mirror_url: str) -> None:
    async with world(database_url, 1) as at, followed(at.store, mirror_url) as (following, _):
        experiment_id = await at.new_experiment(5)
        added = await at.add_items(experiment_id, 3)
        before = contents_of(await ready(following, experiment_id), experiment_id)
        await at.store.write(lambda c: expiring.remove_shown(c, experiment_id, added[:2]))
        await agree(at.store, following, experiment_id)
        after = contents_of(await ready(following, experiment_id), experiment_id)
        assert 0 < len(after) < len(before)


@in_a_loop
async def test_an_annotation_is_a_change_of_its_row(database_url: str, mirror_url: str) -> None:
    async with world(database_url, 1) as at, followed(at.store, mirror_url) as (following, _):
        experiment_id = await at.new_experiment(3)
        await ready(following, experiment_id)
        statement = (
            "INSERT INTO annotation (id, tenant, experiment_id, item_id, turn_no, name, score, "
            "author, created_at_ms, target_record_id) SELECT 'a-new', tenant, experiment_id, "
            "item_id, 0, 'new', 5, 'ann', 1, coalesce(target_record_id, '') FROM turn_result "
            "WHERE experiment_id = :e AND turn_no = 0 LIMIT 1"
        )
        await at.store.write(lambda c: c.execute(sa.text(statement), {"e": experiment_id}).rowcount)
        mirror = await ready(following, experiment_id)
        noted = Condition("annotation.new", Op.EQUAL, 5.0)
        found = result_places(mirror, asked_of(experiment_id), noted, [], None, 10)
        assert len(found.places) == 1


@in_a_loop
async def test_another_mirror_starts_with_a_copy_of_everything(
    database_url: str, mirror_url: str, tmp_path: Path
) -> None:
    async with world(database_url, 1) as at:
        experiment_id = await at.new_experiment(5)
        async with followed(at.store, mirror_url) as (following, _):
            await agree(at.store, following, experiment_id)
        other = f"duckdb:///{tmp_path}/other.duckdb"
        async with followed(at.store, other, mirror_id="m-2") as (following, _):
            await at.add_items(experiment_id, 5)
            await agree(at.store, following, experiment_id)
        # The first one is behind now, and nothing tells what it lacks.
        async with followed(at.store, mirror_url, mirror_id="m-3") as (following, _):
            await agree(at.store, following, experiment_id)


@in_a_loop
async def test_a_rebuild_makes_everything_anew(database_url: str, mirror_url: str) -> None:
    async with world(database_url, 1) as at, followed(at.store, mirror_url) as (following, _):
        experiment_id = await at.new_experiment(5)
        mirror = await ready(following, experiment_id)
        await asyncio.to_thread(mirror.begin, "m-1")  # an operator emptied it by mistake
        following.rebuild()
        assert not following.ready
        await agree(at.store, following, experiment_id)


@in_a_loop
async def test_only_one_process_writes_to_a_mirror(database_url: str, mirror_url: str) -> None:
    async with world(database_url, 1) as at:
        experiment_id = await at.new_experiment(5)
        async with (
            followed(at.store, mirror_url) as (first, _),
            followed(at.store, mirror_url, owner="w-2", mirror_id="m-2") as (second, _),
        ):
            await until(lambda: first.ready or second.ready)
            readies = [first.ready, second.ready]
            assert sorted(readies) == [False, True]
            writer, other = (first, second) if first.ready else (second, first)
            assert await other.up_to_date(experiment_id) is None
            await agree(at.store, writer, experiment_id)


@in_a_loop
async def test_a_mirror_that_is_away_costs_no_answer_and_catches_up(
    database_url: str, tmp_path: Path
) -> None:
    pytest.importorskip("chdb", reason="chdb is not installed")
    server = ClickHouseProcess(tmp_path / "clickhouse")
    if server.given:
        pytest.skip("a server that is given is not ours to kill")
    server.start()
    try:
        url = server.fresh_database()
        async with world(database_url, 1) as at, followed(at.store, url) as (following, metrics):
            experiment_id = await at.new_experiment(5)
            await agree(at.store, following, experiment_id)
            server.kill()
            added = await at.add_items(experiment_id, 5)
            results = Results(at.store, following)
            assert await every_row(results, experiment_id) == await every_row(
                Results(at.store), experiment_id
            )
            await results.aggregates(TENANT, experiment_id)
            await until(lambda: b"lab_mirror_lag_rows 5.0" in metrics.exposition())
            assert len(added) == 5
            server.start()
            await agree(at.store, following, experiment_id)
            await until(lambda: b"lab_mirror_lag_rows 0.0" in metrics.exposition())
    finally:
        server.kill()


@in_a_loop
async def test_a_mirror_that_was_never_there_lags_by_everything(
    database_url: str, tmp_path: Path
) -> None:
    path = tmp_path / "a folder that is not there" / "lab.duckdb"
    async with world(database_url, 1) as at:
        experiment_id = await at.new_experiment(7)
        async with followed(at.store, f"duckdb:///{path}") as (following, metrics):
            await until(lambda: b"lab_mirror_lag_rows 7.0" in metrics.exposition())
            path.parent.mkdir()
            await agree(at.store, following, experiment_id)
            await until(lambda: b"lab_mirror_lag_rows 0.0" in metrics.exposition())


# --- answers that are kept ------------------------------------------------------------------------


@in_a_loop
async def test_an_answer_is_kept_until_something_of_its_experiment_changes(
    database_url: str, mirror_url: str
) -> None:
    async with world(database_url, 1) as at, followed(at.store, mirror_url) as (following, _):
        experiment_id = await at.new_experiment(5)
        other_id = await at.new_experiment(5)
        await ready(following, experiment_id)
        results = Results(at.store, following)
        first = await results.aggregates(TENANT, experiment_id)
        assert (await results.aggregates(TENANT, experiment_id)).latency_ms is first.latency_ms
        await at.add_items(other_id, 3)
        await ready(following, other_id)
        assert (await results.aggregates(TENANT, experiment_id)).latency_ms is first.latency_ms
        await at.add_items(experiment_id, 30)
        second = await results.aggregates(TENANT, experiment_id)
        assert plain(second) == plain(await Results(at.store).aggregates(TENANT, experiment_id))
        assert plain(second) != plain(first)
        await at.replace_evaluator(experiment_id, "chrf")
        third = await results.aggregates(TENANT, experiment_id)
        assert third.scores["chrf"].count == 0 < second.scores["chrf"].count
        following.rebuild()
        await ready(following, experiment_id)
        fourth = await results.aggregates(TENANT, experiment_id)
        assert fourth.latency_ms is not third.latency_ms
        assert plain(fourth) == plain(third)


@in_a_loop
async def test_answers_while_rows_change_are_of_one_state(
    database_url: str, mirror_url: str
) -> None:
    """Each is what a database could have said at some moment, never some of two."""
    async with world(database_url, 1) as at, followed(at.store, mirror_url) as (following, _):
        experiment_id = await at.new_experiment(40)
        await ready(following, experiment_id)
        results = Results(at.store, following)

        async def change() -> None:
            for _ in range(15):
                await at.add_items(experiment_id, 5)

        changing = asyncio.create_task(change())
        answers = 0
        while not changing.done() or answers < 5:
            found = await results.aggregates(TENANT, experiment_id, group_by="domain")
            assert isinstance(found, GroupedAggregates)
            assert isinstance(found.groups, tuple)
            for name, score in found.scores.items():
                assert sum(one.count for one in score.histogram) == score.count
                assert isinstance(score.outcomes, Outcomes)
                of_groups = [one.aggregates.scores[name].count for one in found.groups]
                assert sum(of_groups) == score.count
            answers += 1
        await changing
        expected = await Results(at.store).aggregates(TENANT, experiment_id)
        assert plain(await results.aggregates(TENANT, experiment_id)) == plain(expected)


@in_a_loop
async def test_a_reader_sees_one_state_where_the_mirror_has_snapshots(
    database_url: str, mirror_url: str
) -> None:
    count = Query("SELECT count(*) FROM lab_turn", ())
    async with world(database_url, 1) as at, followed(at.store, mirror_url) as (following, _):
        experiment_id = await at.new_experiment(5)
        mirror = await ready(following, experiment_id)
        with mirror.reading() as reader:
            before = await asyncio.to_thread(reader.ask, count)
            await at.add_items(experiment_id, 5)
            await ready(following, experiment_id)
            after = await asyncio.to_thread(reader.ask, count)
        assert (after == before) is mirror.has_snapshots
        assert mirror.ask(count) > before


@in_a_loop
async def test_a_process_that_another_one_relieved_does_not_answer_from_the_mirror(
    database_url: str, mirror_url: str
) -> None:
    async with world(database_url, 1) as at, followed(at.store, mirror_url) as (following, _):
        experiment_id = await at.new_experiment(5)
        await agree(at.store, following, experiment_id)
        statement = sa.text("UPDATE mirror_state SET flush_no = flush_no + 7")
        await at.store.write(lambda c: c.execute(statement).rowcount)
        assert await following.up_to_date(experiment_id) is None


# --- kill -9 --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_after_kill_9_at_any_moment_mirror_and_store_agree(
    seed: int, database_url: str, mirror_url: str
) -> None:
    """A process changes rows and follows them, and is killed; the next one finds everything."""
    random = Random(seed)
    asyncio.run(_prepare(database_url, seed))
    for life in range(LIVES):
        process = _CONTEXT.Process(
            target=_live, args=(database_url, mirror_url, seed + life), daemon=True
        )
        process.start()
        # From before the first copy has begun to long after it.
        process.join(random.choice((0.05, 0.2, 0.5)) + random.random() / 2)
        process.kill()
        process.join()
        process.close()
    asyncio.run(_check(database_url, mirror_url))


async def _prepare(url: str, seed: int) -> None:
    async with world(url, seed) as at:
        await at.new_experiment(30)


def _live(url: str, mirror_url: str, seed: int) -> None:
    asyncio.run(_change_and_follow(url, mirror_url, seed))


async def _change_and_follow(url: str, mirror_url: str, seed: int) -> None:
    async with await open_store(url) as store:
        at = World(store, Random(seed))
        async with followed(store, mirror_url, owner=f"w-{seed}", mirror_id=f"m-{seed}") as (
            following,
            _,
        ):
            # A lease outlives the process that was killed; here no one waits for it to run out.
            await store.write(
                lambda c: c.execute(sa.text("UPDATE lease SET expires_at = 0")).rowcount
            )
            while True:
                await at.change_some(ExperimentId("e-1"))
                await following.up_to_date(ExperimentId("e-1"))


async def _check(url: str, mirror_url: str) -> None:
    async with await open_store(url) as store:
        await store.write(lambda c: c.execute(sa.text("UPDATE lease SET expires_at = 0")).rowcount)
        async with followed(store, mirror_url, owner="w-last", mirror_id="m-last") as (
            following,
            _,
        ):
            await agree(store, following, ExperimentId("e-1"))


# --- questions ------------------------------------------------------------------------------------


@in_a_loop
async def test_a_bad_pattern_is_refused_and_the_mirror_stays(
    database_url: str, mirror_url: str
) -> None:
    async with world(database_url, 1) as at, followed(at.store, mirror_url) as (following, _):
        experiment_id = await at.new_experiment(3)
        await ready(following, experiment_id)
        wanted = parse_filter({"field": "text", "op": "matches", "value": "("})
        with pytest.raises(InvalidFilter, match="not valid"):
            await Results(at.store, following).page(TENANT, experiment_id, wanted=wanted)
        await agree(at.store, following, experiment_id)


@in_a_loop
async def test_fifty_levels_are_asked_and_ten_thousand_values_too(
    database_url: str, mirror_url: str
) -> None:
    async with world(database_url, 1) as at, followed(at.store, mirror_url) as (following, _):
        experiment_id = await at.new_experiment(3)
        mirror = await ready(following, experiment_id)
        tree: dict[str, Any] = {
            "field": "input.source",
            "op": "in",
            "value": [f"it's {number}\\n" for number in range(9_999)],
        }
        for number in range(49):
            tree = {"and": [tree]} if number % 2 else {"not": tree}
        wanted = parse_filter(tree)
        expected = await every_row(Results(at.store), experiment_id, wanted=wanted)
        found = result_places(mirror, asked_of(experiment_id), wanted, [], None, 100)
        assert len(found.places) == len(expected) > 0
        assert (
            await every_row(Results(at.store, following), experiment_id, wanted=wanted) == expected
        )


@in_a_loop
async def test_a_question_that_takes_too_long_is_stopped_and_the_mirror_stays(
    database_url: str, mirror_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duckdb_mirror, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(clickhouse_mirror, "_LIMIT", "SETTINGS max_execution_time = 1")
    many = {"duckdb": "range(1000000000)", "clickhouse": "numbers(100000000000)"}
    async with world(database_url, 1) as at, followed(at.store, mirror_url) as (following, _):
        experiment_id = await at.new_experiment(3)
        mirror = await ready(following, experiment_id)
        source = many[mirror.dialect.name]
        endless = f"SELECT count(*) FROM {source} AS a, {source} AS b"
        with pytest.raises(TooSlow, match="seconds; use a filter that looks at less"):
            await asyncio.to_thread(mirror_query, mirror, endless)
        await agree(at.store, following, experiment_id)


def test_a_mirror_of_another_process_is_not_opened(tmp_path: Path) -> None:
    url = f"duckdb:///{tmp_path}/lab.duckdb"
    process = _CONTEXT.Process(target=_hold, args=(url, str(tmp_path / "held")), daemon=True)
    process.start()
    try:
        while not (tmp_path / "held").exists():
            process.join(0.01)
        with pytest.raises(MirrorAway, match="another process"):
            open_mirror(url)
    finally:
        process.kill()
        process.join()
        process.close()
    open_mirror(url).close()


def _hold(url: str, note: str) -> None:
    mirror = open_mirror(url)
    mirror.begin("m-1")
    Path(note).touch()
    multiprocessing.Event().wait()


def test_a_damaged_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "lab.duckdb"
    path.write_bytes(b"this is no database" * 1000)
    mirror = open_mirror(f"duckdb:///{path}")
    assert mirror.identity() is None
    mirror.close()
