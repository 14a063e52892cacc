"""Retention: what has been over for long, or is too much, goes; everything else stays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.integration.lab_engine.laboratory import (
    STEADY,
    TENANT,
    Laboratory,
    add_items,
    experiment,
    laboratory,
    until,
)
from tests.integration.lab_engine.targets import touch
from typer.testing import CliRunner

from dragoman.audit import AuditEntry, AuditFilter, AuditStore
from dragoman.cli.lab_upkeep import app
from dragoman.clock import SystemClock
from dragoman.lab.cleaning import Cleaner
from dragoman.lab.experiments import StartAsk
from dragoman.lab.model import Experiment, ExperimentId, JsonValue, RunId, VersionId
from dragoman.lab.pruning import DAY_MS, Retention, expire, prune, surplus
from dragoman.lab.removal import finish_removal
from dragoman.lab.repository import datasets, expiring, pruning, removing, spending
from dragoman.lab.states import RunMode, RunStatus
from dragoman.store import Store, StoreConnection, open_store

ITEMS = 12
OLD = Retention(days=30)
AUDIO = [(f"{n:064x}", "audio/wav") for n in range(13)]

LEFT = {
    "experiment": "id",
    "run_log": "experiment_id",
    "item_result": "experiment_id",
    "turn_result": "experiment_id",
    "experiment_aggregate": "experiment_id",
}
BY_RUN = ("item_run_log", "turn_run_log", "turn_score", "target_record", "evaluator_record")


async def ended(at: Laboratory, version: VersionId, days_ago: float, name: str) -> Experiment:
    """An experiment that ended so long ago."""
    made = await at.run(experiment(version, "answer", {"length": "judge"}, name=name))
    await _set_back(at.store, made.experiment_id, days_ago)
    return made


async def _set_back(store: Store, experiment_id: ExperimentId, days: float) -> None:
    earlier = sa.text(
        "UPDATE experiment SET ended_at_ms = ended_at_ms - :ms, "
        "created_at_ms = created_at_ms - :ms WHERE id = :e"
    )
    asked = {"ms": round(days * DAY_MS), "e": experiment_id}
    await store.write(lambda c: c.execute(earlier, asked).close())


async def cases(at: Laboratory, calls: str) -> VersionId:
    row: dict[str, JsonValue] = {"turn": 0, "calls": calls, "delay_ms": 0, "fate": "well"}
    version, _ = await add_items(at.store, [[{**row, "key": f"k{n}"}] for n in range(ITEMS)])
    return version


async def names(store: Store) -> list[str]:
    listed = sa.text("SELECT name FROM experiment ORDER BY name")
    return list(await store.read(lambda c: c.execute(listed).scalars().all()))


async def named(store: Store, retention: Retention) -> list[str]:
    return [one.name async for one in surplus(store, retention)]


async def rows_left(at: Laboratory, made: Experiment, run_id: str) -> dict[str, int]:
    found = {}
    for table, column in LEFT.items():
        sql = f"SELECT count(*) FROM {table} WHERE {column} = :id"
        [(found[table],)] = await at.rows(sql, id=made.experiment_id)
    for table in BY_RUN:
        sql = f"SELECT count(*) FROM {table} WHERE run_id = :id"
        [(found[table],)] = await at.rows(sql, id=run_id)
    return {table: number for table, number in found.items() if number}


def test_experiments_that_ended_long_ago_go_with_all_they_have(
    database_url: str, calls: str
) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version = await cases(at, calls)
            old = await ended(at, version, 31, "old")
            await ended(at, version, 29, "young")
            shown = await at.lab.experiments.show(TENANT, old.experiment_id)
            run_id = shown.experiment.run_id or ""

            async def has_everything() -> bool:  # aggregates are stored a moment after the end
                return len(await rows_left(at, old, run_id)) == len(LEFT) + len(BY_RUN)

            await until(has_everything)
            before = await at.store.read(lambda c: spending.spent_by_tenant(c, TENANT))

            assert await named(at.store, OLD) == ["old"]
            assert await names(at.store) == ["old", "young"]
            assert [one.name async for one in prune(at.store, OLD)] == ["old"]

            assert await names(at.store) == ["young"]
            assert await rows_left(at, old, run_id) == {}
            assert await at.store.read(removing.pending) == []
            after = await at.store.read(lambda c: spending.spent_by_tenant(c, TENANT))
            assert after == before
            assert [one.name async for one in prune(at.store, OLD)] == []

    asyncio.run(story())


def test_the_newest_of_each_tenant_are_kept(database_url: str, calls: str) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version = await cases(at, calls)
            for number in range(5):
                await ended(at, version, 10 - number, f"e{number}")
            other = sa.text("UPDATE experiment SET tenant = 'globex' WHERE name IN ('e0', 'e1')")
            await at.store.write(lambda c: c.execute(other).close())
            keep = Retention(experiments=2)
            assert await named(at.store, keep) == ["e2"]
            both = Retention(days=8.5, experiments=2)
            assert sorted(await named(at.store, both)) == ["e0", "e1", "e2"]
            assert [one.name async for one in prune(at.store, keep)] == ["e2"]
            assert await names(at.store) == ["e0", "e1", "e3", "e4"]

    asyncio.run(story())


def test_what_has_not_ended_or_starts_again_by_itself_stays(sqlite_url: str, calls: str) -> None:
    async def story() -> None:
        async with laboratory(sqlite_url) as at:
            version = await cases(at, calls)
            made = await at.lab.experiments.create(
                TENANT, experiment(version, "answer", name="never run")
            )
            await _set_back(at.store, made.experiment_id, 99)
            await ended(at, version, 99, "by a clock")
            soon = sa.text("UPDATE experiment SET next_run_at_ms = 9 WHERE name = 'by a clock'")
            await at.store.write(lambda c: c.execute(soon).close())
            held, _ = await add_items(at.store, [[{"key": "k", "calls": calls}]])
            _, started = await at.lab.experiments.submit(
                TENANT, experiment(held, "answer_once_released", name="running")
            )
            assert await named(at.store, Retention(days=1, experiments=1)) == []
            touch(f"{calls}.released")
            assert await at.ended(started.run_id) is RunStatus.SUCCESS

    asyncio.run(story())


def test_an_experiment_that_is_started_again_meanwhile_is_not_removed(
    database_url: str, calls: str
) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version = await cases(at, calls)
            made = await ended(at, version, 99, "back again")
            [found] = [one async for one in surplus(at.store, OLD)]
            started = await at.lab.experiments.start(TENANT, made.experiment_id)
            assert not await at.store.write(lambda c: pruning.delete_if_over(c, found))
            assert await at.ended(started.run_id) is RunStatus.SUCCESS
            assert not await at.store.write(lambda c: pruning.delete_if_over(c, found))
            assert await names(at.store) == ["back again"]

    asyncio.run(story())


@contextmanager
def removals_noted() -> Iterator[list[int]]:
    """How many rows each statement removes meanwhile."""
    removed: list[int] = []

    def note(connection: object, cursor: object, sql: str, *rest: object) -> None:
        if sql.startswith("DELETE"):
            removed.append(cursor.rowcount)  # type: ignore[attr-defined]

    sa.event.listen(sa.Engine, "after_cursor_execute", note)
    try:
        yield removed
    finally:
        sa.event.remove(sa.Engine, "after_cursor_execute", note)


def test_no_transaction_removes_more_rows_than_its_share(
    database_url: str, calls: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removing, "ROWS_AT_ONCE", 5)

    async def story() -> None:
        async with laboratory(database_url) as at:
            version = await cases(at, calls)
            await ended(at, version, 99, "old")
            with removals_noted() as removed:
                assert [one.name async for one in prune(at.store, OLD)] == ["old"]
            assert max(removed) == 5
            assert sum(removed) > 5 * ITEMS

            await at.store.write(lambda c: datasets.insert_audio(c, version, AUDIO))
            kind = removing.RemovedKind.VERSION
            await at.store.write(lambda c: removing.begin(c, kind, version))
            with removals_noted() as removed:
                await finish_removal(at.store, kind, version)
            assert max(removed) == 5
            assert sum(removed) >= ITEMS + len(AUDIO)
            assert await at.rows("SELECT sha256 FROM dataset_audio") == []
            assert await at.store.read(removing.pending) == []

    asyncio.run(story())


# --- experiments that never end -------------------------------------------------------------------

OF_RUNS = ("run_log", "experiment_aggregate", *BY_RUN)
BY_OWN_ITEM = ("item_run_log", "turn_run_log", "turn_score", "target_record", "evaluator_record")


async def by_run(at: Laboratory, run_id: str) -> set[str]:
    """The tables that have rows of a run."""
    found = set()
    for table in OF_RUNS:
        column = "id" if table == "run_log" else "run_id"
        if await at.rows(f"SELECT 1 FROM {table} WHERE {column} = :run", run=run_id):
            found.add(table)
    return found


async def set_back(at: Laboratory, sql: str, **which: str) -> None:
    """Have something happened 99 days earlier."""
    earlier = sa.text(sql.replace(":earlier", str(99 * DAY_MS)))
    await at.store.write(lambda c: c.execute(earlier, which).close())


async def expired(at: Laboratory, *, dry_run: bool = False) -> list[tuple[str, int, int]]:
    found = [one async for one in expire(at.store, OLD, dry_run=dry_run)]
    return [(one.name, one.runs, one.items) for one in found]


async def nightly(at: Laboratory, version: VersionId, runs: int) -> tuple[Experiment, list[RunId]]:
    """An experiment that starts by itself, after some runs, all but the latest of long ago."""
    spec = experiment(version, "answer", {"length": "judge"}, name="nightly", cron="0 3 1 1 *")
    made = await at.lab.experiments.create(TENANT, spec)
    run_ids = []
    for _ in range(runs):
        started = await at.lab.experiments.start(
            TENANT, made.experiment_id, StartAsk(RunMode.APPEND)
        )
        assert await at.ended(started.run_id) is RunStatus.SUCCESS
        run_id = started.run_id

        async def has_everything() -> bool:  # aggregates are stored a moment after the end
            return await by_run(at, run_id) == set(OF_RUNS)  # noqa: B023

        await until(has_everything)
        run_ids.append(run_id)
    for run_id in run_ids[:-1]:
        await set_back(
            at,
            "UPDATE run_log SET ended_at_ms = ended_at_ms - :earlier WHERE id = :run",
            run=run_id,
        )
    return made, run_ids


def test_an_experiment_with_cron_loses_its_old_runs_and_keeps_the_latest(
    database_url: str, calls: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removing, "ROWS_AT_ONCE", 5)

    async def story() -> None:
        async with laboratory(database_url) as at:
            version = await cases(at, calls)
            made, (first, second, latest) = await nightly(at, version, 3)
            # The experiment shows a result of the second run, as when a later one was stopped.
            [(item,)] = await at.rows("SELECT min(item_id) FROM item_result")
            shown = "UPDATE item_result SET run_id = :run WHERE item_id = :item"
            await set_back(at, shown, run=second, item=item)
            spent = await at.store.read(lambda c: spending.spent_by_tenant(c, TENANT))

            assert await expired(at, dry_run=True) == [("nightly", 1, 0)]
            assert await by_run(at, first) == set(OF_RUNS)
            with removals_noted() as removed:
                assert await expired(at) == [("nightly", 1, 0)]
            assert max(removed) == 5
            assert await by_run(at, first) == set()
            assert await by_run(at, second) == await by_run(at, latest) == set(OF_RUNS)
            assert await expired(at) == []
            assert await at.store.read(lambda c: spending.spent_by_tenant(c, TENANT)) == spent
            listed = await at.lab.experiments.runs(TENANT, made.experiment_id)
            assert [one.run.run_id for one in listed] == [latest, second]

            # Another run shows results of its own, so that the second is not needed any more.
            started = await at.lab.experiments.start(
                TENANT, made.experiment_id, StartAsk(RunMode.APPEND)
            )
            await at.ended(started.run_id)
            assert await expired(at) == [("nightly", 1, 0)]
            assert await at.store.read(lambda c: spending.spent_by_tenant(c, TENANT)) == spent
            await at.lab.experiments.delete(TENANT, made.experiment_id)
            assert await at.rows("SELECT run_id FROM item_run_log") == []

    asyncio.run(story())


def test_an_interrupted_removal_of_a_run_is_finished_by_the_next_lab(
    sqlite_url: str, calls: str
) -> None:
    async def story() -> None:
        async with laboratory(sqlite_url) as at:
            version = await cases(at, calls)
            made, (first, _) = await nightly(at, version, 2)
            assert await at.store.write(lambda c: expiring.drop_run(c, made.experiment_id, first))
            assert await by_run(at, first) == set(BY_RUN), "its process was killed here"
            await Cleaner(at.store, SystemClock()).clean()
            assert await by_run(at, first) == set()

    asyncio.run(story())


def test_an_open_experiment_loses_items_that_were_done_long_ago(
    database_url: str, calls: str
) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            spec = experiment(None, "answer", {"length": "judge"}, name="open")
            made, started = await at.lab.experiments.submit(TENANT, spec, StartAsk(RunMode.APPEND))
            case: dict[str, JsonValue] = {"turn": 0, "calls": calls, "delay_ms": 0, "fate": "well"}
            turns = [[{**case, "key": f"k{n}"}] for n in range(7)]
            ids = await at.lab.experiments.invoke(TENANT, made.experiment_id, turns)

            async def succeeded() -> bool:
                shown = await at.lab.experiments.show(TENANT, made.experiment_id)
                return shown.stats.success == len(turns)

            await until(succeeded)
            following = sa.text("INSERT INTO mirror_state VALUES ('mirror', 'm', 0)")
            for item_id in ids[:4]:
                await set_back(
                    at,
                    "UPDATE turn_run_log SET logged_at_ms = logged_at_ms - :earlier "
                    "WHERE item_id = :item",
                    item=item_id,
                )

            def tried_again(connection: StoreConnection) -> int:
                """One of them is being tried again at the moment of its removal."""
                state = "UPDATE item_run_log SET result_state = '{}' WHERE item_id = :item"
                which = {"item": ids[4]}
                connection.execute(sa.text(state.format("init")), which).close()
                removed = expiring.remove_own_items(
                    connection, made.experiment_id, started.run_id, [ids[4]], 1 << 50
                )
                connection.execute(sa.text(state.format("resulted")), which).close()
                return removed

            assert await at.store.write(tried_again) == 0
            await at.store.write(lambda c: c.execute(following).close())
            assert await expired(at, dry_run=True) == [("open", 0, 4)]
            assert await expired(at) == [("open", 0, 4)]
            assert await expired(at) == []
            left = set(ids[4:])
            for table in (*BY_OWN_ITEM, "item_result", "turn_result", "dataset_item"):
                column = "id" if table == "dataset_item" else "item_id"
                rows = await at.rows(f"SELECT {column} FROM {table}")
                assert {row[0] for row in rows} == left, table
            noted = await at.rows("SELECT item_id FROM mirror_change")
            assert set(ids[:4]) <= {row[0] for row in noted}, "the mirror forgets them too"

            await at.lab.experiments.finish(TENANT, made.experiment_id)
            assert await at.ended(started.run_id) is RunStatus.SUCCESS

    asyncio.run(story())


def test_the_command_shows_and_removes_old_runs_of_experiments_that_never_end(
    sqlite_url: str, calls: str, tmp_path: Path
) -> None:
    async def prepare() -> None:
        async with laboratory(sqlite_url) as at:
            await nightly(at, await cases(at, calls), 2)

    asyncio.run(prepare())
    file = tmp_path / "dragoman.toml"
    file.write_text(f'[store]\ndatabase_url = "{sqlite_url}"\n[lab]\nretention_days = 30\n')
    config = ["--config", str(file)]
    run = CliRunner().invoke
    shown = run(app, ["prune", "--dry-run", *config])
    assert shown.exit_code == 0, shown.output
    assert "1 old run and 0 old items of experiments that never end would be removed." in (
        shown.output
    )
    told = json.loads(run(app, ["prune", "--json", *config]).output)
    [one] = told["of_never_ending"]
    assert (one["name"], one["runs"], one["items"]) == ("nightly", 1, 0)
    assert "nothing to remove" in run(app, ["prune", *config]).output
    assert len(asyncio.run(entries_of(sqlite_url, "experiment.prune"))) == 1


def test_the_lab_prunes_by_itself_what_the_settings_do_not_keep(
    sqlite_url: str, calls: str
) -> None:
    async def story() -> None:
        async with laboratory(sqlite_url) as at:
            version = await cases(at, calls)
            await ended(at, version, 31, "old")
            await ended(at, version, 1, "young")
            for days, left in ((0, ["old", "young"]), (30, ["young"])):
                settings = STEADY.model_copy(update={"retention_days": days})
                await Cleaner(at.store, SystemClock(), settings=settings).clean()
                assert await names(at.store) == left

    asyncio.run(story())


def test_the_command_shows_what_it_would_remove_and_then_removes_it(
    database_url: str, calls: str, tmp_path: Path
) -> None:
    async def prepare() -> None:
        async with laboratory(database_url) as at:
            version = await cases(at, calls)
            await ended(at, version, 99, "old")
            await ended(at, version, 0, "young")

    asyncio.run(prepare())
    file = tmp_path / "dragoman.toml"
    file.write_text(f'[store]\ndatabase_url = "{database_url}"\n[lab]\nretention_days = 30\n')
    config = ["--config", str(file)]
    run = CliRunner().invoke

    shown = run(app, ["prune", "--dry-run", *config])
    assert shown.exit_code == 0, shown.output
    assert "old" in shown.output
    assert "young" not in shown.output
    assert "1 experiment would be removed." in shown.output
    told = json.loads(run(app, ["prune", "--json", *config]).output)
    assert [one["name"] for one in told["experiments"]] == ["old"]
    assert "nothing to remove" in run(app, ["prune", *config]).output
    [kept] = asyncio.run(entries_of(database_url, "experiment.delete"))
    assert (kept.subject, kept.tenant) == (told["experiments"][0]["experiment_id"], TENANT)
    assert kept.actor.startswith("cli:")
    assert kept.facts == {"by": "lab prune", "name": "old"}


async def entries_of(database_url: str, action: str) -> list[AuditEntry]:
    """What the audit log has of an action."""
    async with await open_store(database_url) as store:
        return await AuditStore(store).page(10, AuditFilter(action=action))


def test_the_command_asks_for_a_rule(sqlite_url: str, tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text(f'[store]\ndatabase_url = "{sqlite_url}"\n')
    refused = CliRunner().invoke(app, ["prune", "--config", str(file)])
    assert refused.exit_code == 2
    assert "--older-than-days" in refused.output


def test_a_database_that_is_not_there_yet_has_nothing_to_remove(tmp_path: Path) -> None:
    asked = ["prune", "--keep", "1", "--data-dir", str(tmp_path / "nothing")]
    answered = CliRunner().invoke(app, asked)
    assert answered.exit_code == 0, answered.output
    assert "nothing to remove" in answered.output
    assert not (tmp_path / "nothing").exists()
