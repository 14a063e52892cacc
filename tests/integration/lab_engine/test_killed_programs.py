"""Runs of programs that were killed: another process on the database goes on with them."""

from __future__ import annotations

import asyncio
import multiprocessing
from multiprocessing.process import BaseProcess
from typing import Any

import pytest
from tests.integration.lab_engine.laboratory import (
    HERE,
    STEADY,
    TENANT,
    Laboratory,
    add_items,
    experiment,
    laboratory,
    until,
)
from tests.integration.lab_engine.targets import noted, touch

from dragoman.errors import QuotaExceeded
from dragoman.lab.experiments import StartAsk
from dragoman.lab.model import ExperimentSpec, JsonValue, RunId, TargetSpec
from dragoman.lab.plugins import Context
from dragoman.lab.roles import EMBEDDED
from dragoman.lab.states import RunMode, RunStatus

_CONTEXT = multiprocessing.get_context("forkserver")

LONG = STEADY.model_copy(update={"lease_seconds": 3600.0})
"""No lease runs out while a test is patient: who takes over knows that the owner is gone."""


def of_a_module(version: Any) -> ExperimentSpec:
    return experiment(version, "answer_unless_held", {"good": "judge_unless_held"}, concurrency=2)


def of_the_program(version: Any) -> ExperimentSpec:
    return ExperimentSpec("its own", version, TargetSpec("python", {"function": "mine"}))


async def mine(key: str, calls: str) -> str:
    from tests.integration.lab_engine.targets import note

    note(calls, f"judge/{key}")
    await asyncio.sleep(3600)
    return key


def _program(url: str, calls: str, own: bool) -> None:
    """A program with an experiment of its own, which never comes to its end."""

    async def main() -> None:
        context = Context(functions={"mine": mine})
        async with laboratory(url, LONG, context=context, role=EMBEDDED) as at:
            case: dict[str, JsonValue] = {"key": "k", "calls": calls, "hold": True}
            version, _ = await add_items(at.store, [[case]] * 6)
            spec = of_the_program(version) if own else of_a_module(version)
            await at.lab.experiments.submit(TENANT, spec)
            await asyncio.sleep(3600)

    asyncio.run(main())


async def killed_program(url: str, calls: str, *, own: bool) -> None:
    """Start the program, and kill it once it works on items."""
    process: BaseProcess = _CONTEXT.Process(target=_program, args=(url, calls, own), daemon=True)
    process.start()

    async def at_work() -> bool:
        return len([line for line in noted(calls) if line.startswith("judge")]) >= 2

    try:
        await until(at_work)
    finally:
        process.kill()
        process.join()
        process.close()


async def only_run(at: Laboratory) -> tuple[RunId, str]:
    ((run_id, experiment_id),) = await at.rows("SELECT id, experiment_id FROM run_log")
    return run_id, experiment_id


def test_a_server_goes_on_at_once_with_the_run_of_a_program_that_was_killed(
    database_url: str, calls: str
) -> None:
    async def story() -> None:
        await killed_program(database_url, calls, own=False)
        touch(f"{calls}.released")
        async with laboratory(database_url, LONG) as server:
            run_id, _ = await only_run(server)
            assert await server.ended(run_id) is RunStatus.SUCCESS
            shown = await server.rows("SELECT status, count(*) FROM item_result GROUP BY status")
            assert shown == [("success", 6)]

    asyncio.run(story())


def test_another_program_goes_on_at_once_when_it_is_asked_to(database_url: str, calls: str) -> None:
    async def story() -> None:
        await killed_program(database_url, calls, own=False)
        touch(f"{calls}.released")
        async with laboratory(database_url, LONG, role=EMBEDDED) as at:
            run_id, _ = await only_run(at)
            assert await at.lab.experiments.holder(run_id) is None
            at.lab.resume(run_id)
            assert await at.ended(run_id) is RunStatus.SUCCESS

    asyncio.run(story())


def test_a_program_with_a_run_of_its_own_goes_on_with_what_another_left(
    database_url: str, calls: str
) -> None:
    async def story() -> None:
        await killed_program(database_url, calls, own=False)
        touch(f"{calls}.released")
        async with laboratory(database_url, LONG, role=EMBEDDED) as at:
            run_id, _ = await only_run(at)
            case: dict[str, JsonValue] = {"key": "k", "calls": f"{calls}.other", "hold": True}
            version, _ = await add_items(at.store, [[case]])
            _, started = await at.lab.experiments.submit(TENANT, of_a_module(version))
            assert await at.ended(run_id) is RunStatus.SUCCESS
            touch(f"{calls}.other.released")
            assert await at.ended(started.run_id) is RunStatus.SUCCESS

    asyncio.run(story())


def test_a_server_ends_what_only_the_killed_program_could_do_and_says_so(
    database_url: str, calls: str
) -> None:
    async def story() -> None:
        await killed_program(database_url, calls, own=True)
        async with laboratory(database_url, LONG) as server:
            run_id, experiment_id = await only_run(server)
            assert await server.ended(run_id) is RunStatus.TERMINATED
            shown = await server.lab.experiments.show(TENANT, experiment_id)
            assert "The program that ran it has ended" in (shown.experiment.reason or "")
            assert "mine" in (shown.experiment.reason or "")

    asyncio.run(story())


def test_a_killed_program_takes_up_no_place_of_its_tenant(database_url: str, calls: str) -> None:
    one = LONG.model_copy(update={"running_experiments": 1})

    async def story() -> None:
        await killed_program(database_url, calls, own=True)
        async with laboratory(database_url, one, role=EMBEDDED) as at:
            version, _ = await add_items(at.store, [[{"key": "k", "calls": calls}]])
            spec = experiment(version, "hang", name="first")
            await at.lab.experiments.submit(TENANT, spec)
            with pytest.raises(QuotaExceeded):
                await at.lab.experiments.submit(TENANT, experiment(version, "hang", name="second"))

    asyncio.run(story())


def test_no_start_changes_a_row_when_the_target_cannot_be_opened(
    database_url: str, calls: str
) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version, _ = await add_items(at.store, [[{"key": "k", "calls": calls}]])
            made = await at.run(experiment(version, "answer_unless_held"))
        elsewhere = Context(python_allow=())
        async with laboratory(database_url, context=elsewhere) as at:
            for ask in (StartAsk(RunMode.RETRY_ALL), StartAsk(RunMode.FAIL_RETRY), StartAsk()):
                with pytest.raises(Exception, match=HERE):
                    await at.lab.experiments.start(TENANT, made.experiment_id, ask)
            assert len(await at.rows("SELECT id FROM run_log")) == 1
            assert await at.rows("SELECT status FROM item_result") == [("success",)]

    asyncio.run(story())
