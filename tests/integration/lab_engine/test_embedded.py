"""A lab inside a program: it drives what it started, and no other lab does."""

from __future__ import annotations

import asyncio

import pytest
from tests.integration.lab_engine.laboratory import (
    TENANT,
    add_items,
    experiment,
    laboratory,
    until,
)
from tests.integration.lab_engine.targets import noted, touch
from tests.servers import TWO_DATABASES

from dragoman.lab.model import ExperimentSpec, JsonValue, TargetSpec, VersionId
from dragoman.lab.plugins import Context
from dragoman.lab.roles import EMBEDDED
from dragoman.lab.running.embedded import in_words
from dragoman.lab.scheduler import driver
from dragoman.lab.states import RunStatus
from dragoman.observability import get_logger

DATABASE_KINDS = TWO_DATABASES


def spec_of(version: VersionId) -> ExperimentSpec:
    return ExperimentSpec("mine", version, TargetSpec("python", {"function": "mine"}))


async def mine(text: str) -> str:
    return text.upper()


def test_a_program_runs_its_own_functions(sqlite_url: str) -> None:
    async def story() -> None:
        context = Context(functions={"mine": mine})
        async with laboratory(sqlite_url, context=context, role=EMBEDDED) as at:
            version, _ = await add_items(at.store, [[{"text": "a"}], [{"text": "b"}]])
            await at.run(spec_of(version))
            outputs = await at.rows("SELECT output_json FROM target_record ORDER BY id")
            assert outputs == [('{"output":"A"}',), ('{"output":"B"}',)]

    asyncio.run(story())


def test_a_server_leaves_the_run_of_a_program_alone_and_the_program_resumes_it(
    database_url: str,
) -> None:
    async def story() -> None:
        context = Context(functions={"mine": mine})
        async with laboratory(
            database_url, context=context, role=EMBEDDED, works=False, schedules=False
        ) as stopped:
            version, _ = await add_items(stopped.store, [[{"text": "a"}]])
            _, started = await stopped.lab.experiments.submit(TENANT, spec_of(version))
        async with laboratory(database_url) as server:
            # The server has work of its own, so its sweeps have come by when that is done.
            other, _ = await add_items(server.store, [[{}]])
            await server.run(experiment(other, "answer_anything"))
            run = "SELECT status FROM run_log WHERE id = :r"
            assert await server.rows(run, r=started.run_id) == [("pending",)]
        async with laboratory(database_url, context=context, role=EMBEDDED) as at:
            at.lab.resume(started.run_id)
            assert await at.ended(started.run_id) is RunStatus.SUCCESS

    asyncio.run(story())


def test_what_was_handed_out_before_the_program_died_is_carried_out_by_the_next(
    database_url: str,
) -> None:
    async def story() -> None:
        context = Context(functions={"mine": mine})
        async with laboratory(database_url, context=context, role=EMBEDDED, works=False) as idle:
            version, _ = await add_items(idle.store, [[{"text": "a"}]])
            _, started = await idle.lab.experiments.submit(TENANT, spec_of(version))

            async def handed_out() -> bool:
                return await idle.rows("SELECT status FROM item_run_log") == [("processing",)]

            await until(handed_out)
        async with laboratory(database_url, context=context, role=EMBEDDED) as at:
            at.lab.resume(started.run_id)
            assert await at.ended(started.run_id) is RunStatus.SUCCESS

    asyncio.run(story())


def test_a_program_that_is_gone_can_have_its_run_killed_by_the_server(
    database_url: str,
) -> None:
    async def story() -> None:
        async with laboratory(database_url, role=EMBEDDED, works=False, schedules=False) as gone:
            version, _ = await add_items(gone.store, [[{"text": "a"}]])
            spec = experiment(version, "answer_anything")
            made, started = await gone.lab.experiments.submit(TENANT, spec)
        async with laboratory(database_url) as server:
            await server.lab.experiments.kill(TENANT, made.experiment_id)
            assert await server.ended(started.run_id) is RunStatus.TERMINATED

    asyncio.run(story())


def test_a_lab_that_stops_hands_its_items_back_untried(database_url: str, calls: str) -> None:
    case: dict[str, JsonValue] = {"key": "k", "calls": calls, "hold": True}

    async def story() -> None:
        async with laboratory(database_url) as first:
            version, _ = await add_items(first.store, [[case]])
            spec = experiment(version, "answer_unless_held", {"good": "judge_unless_held"})
            _, started = await first.lab.experiments.submit(TENANT, spec)
            await until(lambda: _judging(calls))
        touch(f"{calls}.released")
        async with laboratory(database_url) as second:
            assert await second.ended(started.run_id) is RunStatus.SUCCESS
            assert noted(calls) == ["k", "judge/k", "judge/k"], "the answer was not lost"
            assert await second.rows("SELECT try_no FROM item_run_log") == [(1,)]

    asyncio.run(story())


async def _judging(calls: str) -> bool:
    return "judge/k" in noted(calls)


def test_what_the_driver_says_of_a_killed_run_is_a_sentence_in_any_program(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = get_logger(driver.__name__)
    with in_words():
        log.warning("lab_items_taken_back", run_id="r", items=1)
        log.warning("lab_items_taken_back", run_id="r", items=2)
    log.warning("lab_items_taken_back", run_id="r", items=2)
    assert caplog.messages == [
        "1 item is done again: the process at work on the run has ended.",
        "2 items are done again: the process at work on the run has ended.",
        "lab_items_taken_back",
    ]
