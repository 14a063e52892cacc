"""Whole runs: what comes out, what is called again and what is not."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
import sqlalchemy as sa
from tests.integration.lab_engine.laboratory import (
    HELD,
    QUICK,
    TENANT,
    Laboratory,
    add_items,
    experiment,
    laboratory,
    until,
)
from tests.integration.lab_engine.targets import noted, touch

from dragoman.errors import ExperimentNotRunning, ExperimentRunning
from dragoman.lab.experiments import StartAsk
from dragoman.lab.experiments.starting import new_run
from dragoman.lab.feed import RunEnded
from dragoman.lab.model import ExperimentId, ItemId, JsonValue, RunId
from dragoman.lab.repository import runs
from dragoman.lab.scheduler.modes import STRATEGIES
from dragoman.lab.states import RunMode, RunStatus
from dragoman.store import StoreConnection

CURSES = {
    "sqlite": (
        "CREATE TRIGGER broken BEFORE UPDATE ON turn_result WHEN NEW.item_id = 'ITEM' "
        "AND NEW.status = 'success' BEGIN SELECT RAISE(ABORT, 'this row is cursed'); END",
    ),
    "postgresql": (
        "CREATE FUNCTION curse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'this row is cursed'; END $$",
        "CREATE TRIGGER broken BEFORE UPDATE ON turn_result FOR EACH ROW WHEN "
        "(NEW.item_id = 'ITEM' AND NEW.status = 'success') EXECUTE FUNCTION curse()",
    ),
    "mysql": (
        "CREATE TRIGGER broken BEFORE UPDATE ON turn_result FOR EACH ROW "
        "IF NEW.item_id = 'ITEM' AND NEW.status = 'success' THEN "
        "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'this row is cursed'; END IF",
    ),
}
"""Has the database refuse to show that an item went well."""


def turn(calls: str, key: str, number: int = 0, **changes: JsonValue) -> dict[str, JsonValue]:
    return {
        "key": key,
        "turn": number,
        "calls": calls,
        "delay_ms": 0,
        "fate": "well",
        "fixed": f"{calls}.fixed",
        **changes,
    }


async def statuses(at: Laboratory, experiment_id: ExperimentId) -> list[str]:
    rows = await at.rows(
        "SELECT status FROM item_result WHERE experiment_id = :e ORDER BY item_id",
        e=experiment_id,
    )
    return [row[0] for row in rows]


def test_every_item_goes_through_the_target_and_the_evaluators(
    database_url: str, calls: str
) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            items = [[turn(calls, f"k{n}")] for n in range(30)]
            version, _ = await add_items(at.store, items)

            made = await at.run(experiment(version, "answer", {"length": "judge"}))

            shown = await at.lab.experiments.show(TENANT, made.experiment_id)
            assert shown.experiment.status is RunStatus.SUCCESS
            assert (shown.stats.success, shown.stats.items, shown.progress) == (30, 30, 1.0)
            assert sorted(noted(calls)) == sorted(f"k{n}/0" for n in range(30))

    asyncio.run(story())


def test_history_reaches_the_target_and_a_failed_turn_ends_the_later_ones(
    database_url: str, calls: str
) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            well = [turn(calls, "a", n) for n in range(3)]
            ill = [
                turn(calls, "b", 0),
                turn(calls, "b", 1, fate="target_fails"),
                turn(calls, "b", 2),
            ]
            version, _ = await add_items(at.store, [well, ill])

            made = await at.run(experiment(version, "answer"))

            rows = await at.rows(
                "SELECT r.item_id, r.turn_no, r.status, r.error_code, r.error_message, "
                "t.output_json FROM turn_result r LEFT JOIN target_record t "
                "ON t.id = r.target_record_id WHERE r.experiment_id = :e "
                "ORDER BY r.item_id, r.turn_no",
                e=made.experiment_id,
            )
            assert [row[2] for row in rows] == [*["success"] * 4, "fail", "fail"]
            assert '"a:a::0+a:a::0:1:2"' in rows[2][5]
            assert rows[4][3] == "TARGET_ERROR"
            assert "turn 2 failed" in rows[5][4]
            assert await statuses(at, made.experiment_id) == ["success", "fail"]
            assert "b/2" not in noted(calls)

    asyncio.run(story())


def test_fail_retry_calls_only_what_failed(database_url: str, calls: str) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            fates = ["well", "target_fails", "well"]
            items = [[turn(calls, f"k{n}", fate=fate)] for n, fate in enumerate(fates)]
            version, _ = await add_items(at.store, items)
            spec = experiment(
                version, "answer", {"good": "judge_noting", "broken": "judge_unless_broken"}
            )
            made = await at.run(spec)
            assert await statuses(at, made.experiment_id) == ["fail"] * 3
            shown = await at.lab.experiments.show(TENANT, made.experiment_id)
            assert shown.experiment.status is RunStatus.FAILED
            before = Counter(noted(calls))

            touch(f"{calls}.fixed")
            ask = StartAsk(RunMode.FAIL_RETRY)
            again = await at.lab.experiments.start(TENANT, made.experiment_id, ask)
            assert await at.ended(again.run_id) is RunStatus.SUCCESS

            called = Counter(noted(calls)) - before
            assert called == Counter({"k1/0": 1, "broken/k0": 1, "broken/k2": 1})
            assert await statuses(at, made.experiment_id) == ["success", "fail", "success"]

            # Once more: only the item that still fails has anything left to do.
            before = Counter(noted(calls))
            third = await at.lab.experiments.start(TENANT, made.experiment_id, ask)
            await at.ended(third.run_id)
            assert Counter(noted(calls)) - before == Counter({"k1/0": 1})

    asyncio.run(story())


def test_retry_all_calls_everything_again(database_url: str, calls: str) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version, _ = await add_items(at.store, [[turn(calls, f"k{n}")] for n in range(3)])
            made = await at.run(experiment(version, "answer", {"good": "judge_noting"}))

            again = await at.lab.experiments.start(
                TENANT, made.experiment_id, StartAsk(RunMode.RETRY_ALL)
            )
            await at.ended(again.run_id)

            assert set(Counter(noted(calls)).values()) == {2}

    asyncio.run(story())


def test_a_trial_takes_the_first_items_only(database_url: str, calls: str) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version, _ = await add_items(at.store, [[turn(calls, f"k{n}")] for n in range(9)])
            spec = experiment(version, "answer")
            _, started = await at.lab.experiments.submit(
                TENANT, spec, StartAsk(RunMode.TRIAL, trial_items=4)
            )
            await at.ended(started.run_id)

            assert sorted(noted(calls)) == [f"k{n}/0" for n in range(4)]

    asyncio.run(story())


def test_retry_items_calls_the_named_items_again(database_url: str, calls: str) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version, ids = await add_items(at.store, [[turn(calls, f"k{n}")] for n in range(5)])
            made = await at.run(experiment(version, "answer"))

            ask = StartAsk(RunMode.RETRY_ITEMS, item_ids=(ids[1], ids[3]))
            again = await at.lab.experiments.start(TENANT, made.experiment_id, ask)
            await at.ended(again.run_id)

            assert not again.joined
            counted = Counter(noted(calls))
            assert [counted[f"k{n}/0"] for n in range(5)] == [1, 2, 1, 2, 1]

    asyncio.run(story())


def test_retry_items_joins_a_running_run(database_url: str, calls: str) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            items = [[turn(calls, "quick", hold=False)], [turn(calls, "held", hold=True)]]
            version, ids = await add_items(at.store, items)
            spec = experiment(version, "answer_unless_held", {"good": "judge_unless_held"})
            made, started = await at.lab.experiments.submit(TENANT, spec)

            async def first_is_done() -> bool:
                is_judged = "judge/held" in noted(calls)
                return is_judged and "success" in await statuses(at, made.experiment_id)

            await until(first_is_done)
            ask = StartAsk(RunMode.RETRY_ITEMS, item_ids=tuple(ids))
            joined = await at.lab.experiments.start(TENANT, made.experiment_id, ask)
            touch(f"{calls}.released")
            assert await at.ended(started.run_id) is RunStatus.SUCCESS

            assert (joined.run_id, joined.joined) == (started.run_id, True)
            # The held one was still being worked on, and is left as it was.
            counted = Counter(noted(calls))
            assert counted == Counter({"quick": 2, "judge/quick": 2, "held": 1, "judge/held": 1})
            tries = await at.rows(
                "SELECT try_no, archived_try_no FROM item_run_log ORDER BY item_id"
            )
            assert tries == [(2, 2), (1, 1)]

    asyncio.run(story())


def test_retry_items_in_the_last_moment_joins_or_starts_and_is_never_lost(
    database_url: str, calls: str
) -> None:
    """The race between the end of a run and an item that joins it, over and over."""

    async def story() -> None:
        async with laboratory(database_url) as at:
            version, ids = await add_items(at.store, [[turn(calls, "k")]])
            made, started = await at.lab.experiments.submit(TENANT, experiment(version, "answer"))
            joined = 0
            for round_no in range(30):
                await asyncio.sleep(0.002 * (round_no % 10))
                again = await at.lab.experiments.start(
                    TENANT, made.experiment_id, StartAsk(RunMode.RETRY_ITEMS, item_ids=(ids[0],))
                )
                joined += again.joined
                started = again

            assert await at.ended(started.run_id) is RunStatus.SUCCESS
            assert joined > 0
            logs = await at.rows(
                "SELECT status, result_state, try_no, archived_try_no FROM item_run_log"
            )
            for status, state, try_no, archived in logs:
                assert (status, state, try_no) == ("success", "resulted", archived)
            # As many tries as calls: what was asked for while the item waited asked for nothing.
            tries = await at.rows("SELECT count(*) FROM turn_run_log")
            assert tries[0][0] == len(noted(calls))

    asyncio.run(story())


def test_a_second_start_is_refused(database_url: str, calls: str) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version, _ = await add_items(at.store, [[turn(calls, "k")]])
            made, started = await at.lab.experiments.submit(TENANT, experiment(version, "hang"))

            with pytest.raises(ExperimentRunning, match="kill it"):
                await at.lab.experiments.start(TENANT, made.experiment_id)
            with pytest.raises(ExperimentRunning):
                await at.lab.experiments.delete(TENANT, made.experiment_id)

            await at.lab.experiments.kill(TENANT, made.experiment_id)
            await at.ended(started.run_id)
            await at.lab.experiments.delete(TENANT, made.experiment_id)
            assert await at.rows("SELECT * FROM run_log") == []

    asyncio.run(story())


def test_of_many_starts_at_once_one_wins(database_url: str, calls: str) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version, _ = await add_items(at.store, [[turn(calls, "k")]])
            made = await at.lab.experiments.create(TENANT, experiment(version, "hang"))

            starts = [at.lab.experiments.start(TENANT, made.experiment_id) for _ in range(8)]
            outcomes = await asyncio.gather(*starts, return_exceptions=True)

            refused = [one for one in outcomes if isinstance(one, ExperimentRunning)]
            assert len(refused) == 7
            assert len(await at.rows("SELECT id FROM run_log")) == 1
            await at.lab.experiments.kill(TENANT, made.experiment_id)

    asyncio.run(story())


def test_concurrency_is_changed_while_the_run_goes_on(database_url: str, calls: str) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version, _ = await add_items(at.store, [[turn(calls, f"k{n}")] for n in range(9)])
            spec = experiment(version, "hang", concurrency=2)
            made, _ = await at.lab.experiments.submit(TENANT, spec)

            async def so_many(count: int) -> None:
                async def called() -> bool:
                    return len(noted(calls)) == count

                await until(called)

            await so_many(2)
            await at.lab.experiments.change(TENANT, made.experiment_id, concurrency=7)
            await so_many(7)
            await at.lab.experiments.kill(TENANT, made.experiment_id)

    asyncio.run(story())


def test_an_item_of_many_leases_long_is_not_taken_from_its_worker(
    sqlite_url: str, calls: str
) -> None:
    """On the other databases test_slow_reads.py waits as long, and longer for each statement."""

    async def story() -> None:
        async with laboratory(sqlite_url, HELD) as at:
            slow = HELD.lease_seconds * 1000 * 2
            version, _ = await add_items(at.store, [[turn(calls, "k", delay_ms=slow)]])
            await at.run(experiment(version, "answer"))

            assert noted(calls) == ["k/0"]
            assert b"lab_zombies_total 0.0" in at.metrics.exposition()

    asyncio.run(story())


def test_one_item_that_cannot_be_archived_fails_alone(database_url: str, calls: str) -> None:
    def curse(connection: StoreConnection, item_id: ItemId) -> None:
        for statement in CURSES[connection.dialect]:
            connection.execute(sa.text(statement.replace("ITEM", item_id))).close()

    async def story() -> None:
        async with laboratory(database_url) as at:
            version, ids = await add_items(at.store, [[turn(calls, f"k{n}")] for n in range(6)])
            await at.store.write(lambda c: curse(c, ids[2]))
            made, started = await at.lab.experiments.submit(TENANT, experiment(version, "answer"))
            told: set[ItemId] = set()
            with at.lab.feed.watch(made.experiment_id) as watcher:
                async for change in watcher:
                    if isinstance(change, RunEnded):
                        break
                    told.update(key.item_id for key in change.keys)

            expected = ["success"] * 6
            expected[2] = "fail"
            assert await statuses(at, made.experiment_id) == expected
            turns = await at.rows("SELECT DISTINCT status FROM turn_result ORDER BY status")
            assert turns == [("fail",), ("success",)]
            assert ids[2] in told
            shown = await at.lab.experiments.show(TENANT, made.experiment_id)
            assert shown.experiment.status is RunStatus.SUCCESS
            assert await at.ended(started.run_id) is RunStatus.SUCCESS

    asyncio.run(story())


def test_a_place_is_filled_at_once_and_not_by_the_tick(sqlite_url: str, calls: str) -> None:
    """Fifty items one after the other, with a tick of an hour: only signals move them."""
    settings = QUICK.model_copy(update={"safety_tick_ms": 3_600_000, "lease_seconds": 3_600.0})

    async def story() -> None:
        async with laboratory(sqlite_url, settings) as at:
            version, _ = await add_items(at.store, [[turn(calls, f"k{n}")] for n in range(50)])
            await at.run(experiment(version, "answer", concurrency=1))

            assert noted(calls) == [f"k{n}/0" for n in range(50)]

    asyncio.run(story())


def test_killing_what_does_not_run_is_refused(database_url: str, calls: str) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version, _ = await add_items(at.store, [[turn(calls, "k")]])
            made = await at.run(experiment(version, "answer"))

            with pytest.raises(ExperimentNotRunning, match="not running"):
                await at.lab.experiments.kill(TENANT, made.experiment_id)

    asyncio.run(story())


def test_a_run_that_breaks_again_and_again_fails_and_says_why(
    sqlite_url: str, calls: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mode that this program does not know, as a newer one may have left it."""
    monkeypatch.delitem(STRATEGIES, RunMode.SCORE)

    async def story() -> None:
        async with laboratory(sqlite_url) as at:
            version, _ = await add_items(at.store, [[turn(calls, "k")]])
            made = await at.lab.experiments.create(TENANT, experiment(version, "answer"))
            ask = StartAsk(RunMode.SCORE)
            run = new_run(RunId("r-1"), made, ask, at_ms=0, embedded=False)
            await at.store.write(lambda c: runs.insert_run(c, run))

            assert await at.ended(run.run_id) is RunStatus.FAILED
            shown = await at.lab.experiments.show(TENANT, made.experiment_id)
            assert "The run broke" in (shown.experiment.reason or "")

    asyncio.run(story())
