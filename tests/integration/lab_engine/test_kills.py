"""Killing a run: from any state, within seconds, even if the killing process dies over it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from tests.integration.lab_engine.laboratory import (
    QUICK,
    TENANT,
    add_items,
    experiment,
    laboratory,
    until,
)
from tests.integration.lab_engine.processes import LabProcess
from tests.integration.lab_engine.targets import exists, note, noted, touch

from dragoman.lab.experiments import StartAsk
from dragoman.lab.model import JsonValue, TargetSpec
from dragoman.lab.plugins import Context
from dragoman.lab.states import RunMode, RunStatus


def cases(calls: str, count: int) -> list[list[dict[str, JsonValue]]]:
    return [[{"key": f"k{number}", "calls": calls}] for number in range(count)]


def test_a_pending_run_is_killed_before_it_begins(database_url: str, calls: str) -> None:
    async def story() -> None:
        async with laboratory(database_url, schedules=False, works=False) as idle:
            version, _ = await add_items(idle.store, cases(calls, 3))
            made, started = await idle.lab.experiments.submit(TENANT, experiment(version, "hang"))
            await idle.lab.experiments.kill(TENANT, made.experiment_id, "no longer needed")
            shown = await idle.lab.experiments.show(TENANT, made.experiment_id)
            assert shown.experiment.status is RunStatus.TERMINATING

        # Whoever was killing is gone; the next lab that comes finishes it.
        async with laboratory(database_url) as at:
            assert await at.ended(started.run_id) is RunStatus.TERMINATED
            shown = await at.lab.experiments.show(TENANT, made.experiment_id)
            assert shown.experiment.status is RunStatus.TERMINATED
            assert shown.experiment.reason == "no longer needed"
            assert noted(calls) == []

    asyncio.run(story())


def test_calls_in_flight_are_cancelled_and_their_items_terminated(
    database_url: str, calls: str
) -> None:
    settings = QUICK.model_copy(update={"safety_tick_ms": 3_600_000, "lease_seconds": 3_600.0})

    async def story() -> None:
        async with laboratory(database_url, settings) as at:
            version, _ = await add_items(at.store, cases(calls, 9))
            made, started = await at.lab.experiments.submit(TENANT, experiment(version, "hang"))
            await until(lambda: _called(calls, 4))

            await at.lab.experiments.kill(TENANT, made.experiment_id)
            await at.lab.experiments.kill(TENANT, made.experiment_id)
            assert await at.ended(started.run_id) is RunStatus.TERMINATED

            shown = await at.lab.experiments.show(TENANT, made.experiment_id)
            assert shown.stats.terminated == shown.stats.items == 9
            codes = await at.rows("SELECT DISTINCT status, error_code FROM turn_result")
            assert codes == [("terminated", "CANCELLED")]
            assert len(noted(calls)) == 4
            waiting = [task for task in asyncio.all_tasks() if "_carry_out" in repr(task)]
            await until(lambda: _all_done(waiting))

    asyncio.run(story())


def test_a_thread_that_cannot_be_stopped_is_left_behind_and_fenced(
    sqlite_url: str, calls: str
) -> None:
    released = f"{calls}.released"

    def stubborn(key: str, calls: str) -> str:
        note(calls, key)
        while not exists(released):
            time.sleep(0.01)
        note(calls, "released")
        return key

    async def story() -> None:
        context = Context(functions={"stubborn": stubborn})
        async with laboratory(sqlite_url, context=context) as at:
            version, _ = await add_items(at.store, cases(calls, 1))
            spec = experiment(version, "hang")
            target = TargetSpec("python", {"function": "stubborn"})
            made, started = await at.lab.experiments.submit(
                TENANT, type(spec)(spec.name, version, target)
            )
            await until(lambda: _called(calls, 1))

            await at.lab.experiments.kill(TENANT, made.experiment_id)
            assert await at.ended(started.run_id) is RunStatus.TERMINATED
            touch(released)
            await until(lambda: _called(calls, 2))

            assert await at.rows("SELECT * FROM target_record") == []
            assert await at.rows("SELECT status FROM item_result") == [("terminated",)]

    asyncio.run(story())


def test_a_kill_survives_the_crash_of_everything(database_url: str, calls: str) -> None:
    async def story() -> None:
        async with laboratory(database_url, schedules=False, works=False) as idle:
            version, _ = await add_items(idle.store, cases(calls, 9))
            made, started = await idle.lab.experiments.submit(TENANT, experiment(version, "hang"))
            with LabProcess(database_url):
                await until(lambda: _called(calls, 4))
            await idle.lab.experiments.kill(TENANT, made.experiment_id)
            with LabProcess(database_url):
                assert await idle.ended(started.run_id) is RunStatus.TERMINATED
            shown = await idle.lab.experiments.show(TENANT, made.experiment_id)
            assert shown.stats.terminated == 9
            assert len(noted(calls)) == 4

    asyncio.run(story())


def test_what_a_killed_run_had_done_is_kept_and_not_done_again(
    database_url: str, calls: str
) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            items: list[list[dict[str, JsonValue]]] = [
                [{"key": "done", "calls": calls, "hold": False}],
                [{"key": "stuck", "calls": calls, "hold": True}],
            ]
            version, _ = await add_items(at.store, items)
            spec = experiment(version, "answer_unless_held", {"good": "judge_unless_held"})
            made, started = await at.lab.experiments.submit(TENANT, spec)

            async def one_is_done() -> bool:
                found = await at.rows("SELECT status FROM item_result WHERE status = 'success'")
                return bool(found) and "judge/stuck" in noted(calls)

            await until(one_is_done)
            await at.lab.experiments.kill(TENANT, made.experiment_id)
            await at.ended(started.run_id)
            before = Counter(noted(calls))
            assert before["stuck"] == 1

            touch(f"{calls}.released")
            again = await at.lab.experiments.start(
                TENANT, made.experiment_id, StartAsk(RunMode.FAIL_RETRY)
            )
            assert await at.ended(again.run_id) is RunStatus.SUCCESS
            # Its answer had been written down before the kill; only the judge was interrupted.
            assert Counter(noted(calls)) - before == Counter({"judge/stuck": 1})

    asyncio.run(story())


def test_a_run_past_its_time_limit_is_terminated_with_the_reason(
    database_url: str, calls: str
) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version, _ = await add_items(at.store, cases(calls, 2))
            spec = experiment(version, "hang", time_limit_seconds=0.2)
            made = await at.run(spec)

            shown = await at.lab.experiments.show(TENANT, made.experiment_id)
            assert shown.experiment.status is RunStatus.TERMINATED
            assert "time limit of 0.2 seconds" in (shown.experiment.reason or "")

    asyncio.run(story())


async def _called(calls: str, times: int) -> bool:
    return len(noted(calls)) >= times


async def _all_done(tasks: list[asyncio.Task[object]]) -> bool:
    return all(task.done() for task in tasks)
