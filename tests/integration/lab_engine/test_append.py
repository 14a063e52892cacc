"""Append experiments: items that come while they run, and the end of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from tests.integration.lab_engine.laboratory import (
    TENANT,
    Laboratory,
    add_items,
    laboratory,
    until,
)

from dragoman.errors import (
    DatasetEmpty,
    ExperimentNotRunning,
    ExperimentRunning,
    InvalidMessage,
    SchemaMismatch,
)
from dragoman.ids import new_id
from dragoman.lab.experiments import StartAsk
from dragoman.lab.feed import ItemsArchived
from dragoman.lab.model import (
    Budget,
    EvaluatorSpec,
    Experiment,
    ExperimentSpec,
    TargetSpec,
    VersionId,
)
from dragoman.lab.plugins import Context
from dragoman.lab.states import RunMode, RunStatus

APPEND = StartAsk(RunMode.APPEND)
SEED = 20_261_116


def answer(n: int) -> str:
    if n < 0:
        raise ValueError("no answer below 0")
    return str(n)


def judge(output: str) -> float:
    return float(output)


CONTEXT = Context(functions={"answer": answer, "judge": judge})


def spec(version: VersionId | None = None, **options: Any) -> ExperimentSpec:
    return ExperimentSpec(
        name=new_id(Random(), "append"),
        dataset_version_id=version,
        target=TargetSpec("python", {"function": "answer"}),
        evaluators=(EvaluatorSpec("python", "judge", settings={"function": "judge"}),),
        retries=options.pop("retries", 0),
        **options,
    )


def turns(*numbers: int) -> list[list[dict[str, int]]]:
    return [[{"n": n}] for n in numbers]


async def outputs(at: Laboratory, made: Experiment) -> list[tuple[str, str]]:
    return await at.rows(
        "SELECT t.status, r.output_json FROM turn_result t JOIN target_record r "
        "ON r.id = t.target_record_id WHERE t.experiment_id = :e ORDER BY t.item_id",
        e=made.experiment_id,
    )


def succeeded(at: Laboratory, made: Experiment, number: int) -> Callable[[], Awaitable[bool]]:
    async def reached() -> bool:
        found = await at.lab.experiments.show(TENANT, made.experiment_id)
        return found.stats.success == number

    return reached


async def status(at: Laboratory, made: Experiment) -> RunStatus:
    return (await at.lab.experiments.show(TENANT, made.experiment_id)).experiment.status


def test_items_are_scored_as_they_come_and_the_run_ends_when_it_is_told_to(
    database_url: str,
) -> None:
    async def story() -> None:
        async with laboratory(database_url, context=CONTEXT) as at:
            experiments = at.lab.experiments
            made, started = await experiments.submit(TENANT, spec(), APPEND)
            with at.lab.feed.watch(made.experiment_id) as watcher:
                first = await experiments.invoke(TENANT, made.experiment_id, turns(1, 2, 3))
                await until(succeeded(at, made, 3))
                assert isinstance(await anext(watcher), ItemsArchived), "it is pushed"
            assert await status(at, made) is RunStatus.PROCESSING
            second = await experiments.invoke(TENANT, made.experiment_id, turns(4, 1))
            await until(succeeded(at, made, 5))
            assert len({*first, *second}) == 5, "the same content twice is two items"

            assert await experiments.finish(TENANT, made.experiment_id) == started.run_id
            assert await at.ended(started.run_id) is RunStatus.SUCCESS
            found = [output for _, output in await outputs(at, made)]
            assert found == [f'{{"output":"{n}"}}' for n in (1, 2, 3, 4, 1)], "in their order"
            with pytest.raises(ExperimentNotRunning, match="does not wait for items"):
                await experiments.invoke(TENANT, made.experiment_id, turns(5))
            with pytest.raises(ExperimentNotRunning, match="nothing to finish"):
                await experiments.finish(TENANT, made.experiment_id)

    asyncio.run(story())


def test_a_dataset_comes_first_and_items_are_added_to_it(database_url: str) -> None:
    async def story() -> None:
        async with laboratory(database_url, context=CONTEXT) as at:
            version, _ = await add_items(at.store, turns(*range(20)))
            made, started = await at.lab.experiments.submit(TENANT, spec(version), APPEND)
            await at.lab.experiments.invoke(TENANT, made.experiment_id, turns(100, 101))
            await until(succeeded(at, made, 22))
            await at.lab.experiments.finish(TENANT, made.experiment_id)
            assert await at.ended(started.run_id) is RunStatus.SUCCESS
            # Both are the experiment's items from now on.
            again = StartAsk(RunMode.RETRY_ALL)
            retried = await at.lab.experiments.start(TENANT, made.experiment_id, again)
            assert await at.ended(retried.run_id) is RunStatus.SUCCESS
            [row] = await at.rows(
                "SELECT success FROM experiment_stats WHERE run_id = :run", run=retried.run_id
            )
            assert row[0] == 22

    asyncio.run(story())


def test_an_item_that_was_added_can_be_tried_again(sqlite_url: str) -> None:
    async def story() -> None:
        async with laboratory(sqlite_url, context=CONTEXT) as at:
            made, started = await at.lab.experiments.submit(TENANT, spec(), APPEND)
            good, bad = await at.lab.experiments.invoke(TENANT, made.experiment_id, turns(1, -1))
            await until(_failed(at, made, 1))
            ask = StartAsk(RunMode.RETRY_ITEMS, (bad,))
            joined = await at.lab.experiments.start(TENANT, made.experiment_id, ask)
            assert (joined.run_id, joined.joined) == (started.run_id, True)
            await at.lab.experiments.finish(TENANT, made.experiment_id)
            await at.ended(started.run_id)
            tries = await at.rows(
                "SELECT item_id, try_no FROM item_run_log WHERE run_id = :run", run=started.run_id
            )
            assert dict(tries) == {good: 1, bad: 2}
            retried = await at.lab.experiments.start(
                TENANT, made.experiment_id, StartAsk(RunMode.FAIL_RETRY)
            )
            assert await at.ended(retried.run_id) is RunStatus.FAILED

    asyncio.run(story())


def _failed(at: Laboratory, made: Experiment, number: int) -> Callable[[], Awaitable[bool]]:
    async def reached() -> bool:
        return (await at.lab.experiments.show(TENANT, made.experiment_id)).stats.fail == number

    return reached


def test_no_item_is_lost_between_invoking_and_finishing(database_url: str) -> None:
    """Many callers at once, one of them finishes: what was taken is done, the rest is refused."""
    random = Random(SEED)

    async def story() -> None:
        async with laboratory(database_url, context=CONTEXT) as at:
            experiments = at.lab.experiments
            made, started = await experiments.submit(TENANT, spec(concurrency=16), APPEND)
            taken: list[str] = []

            async def call(delay: float, n: int) -> None:
                await asyncio.sleep(delay)
                with suppress(ExperimentNotRunning):
                    taken.extend(await experiments.invoke(TENANT, made.experiment_id, turns(n)))

            async def close() -> None:
                await asyncio.sleep(0.15)
                await experiments.finish(TENANT, made.experiment_id)

            calls = [call(random.uniform(0, 0.3), n) for n in range(60)]
            await asyncio.gather(close(), *calls)
            assert await at.ended(started.run_id) is RunStatus.SUCCESS
            done = await at.rows(
                "SELECT item_id FROM item_run_log WHERE run_id = :run AND status = 'success' "
                "AND result_state = 'resulted'",
                run=started.run_id,
            )
            assert sorted(taken) == sorted(row[0] for row in done)

    asyncio.run(story())


def test_a_lab_that_is_started_anew_goes_on_taking_items(database_url: str) -> None:
    async def story() -> None:
        async with laboratory(database_url, context=CONTEXT) as at:
            made, started = await at.lab.experiments.submit(TENANT, spec(), APPEND)
            await at.lab.experiments.invoke(TENANT, made.experiment_id, turns(1))
        async with laboratory(database_url, context=CONTEXT) as at:
            await at.lab.experiments.invoke(TENANT, made.experiment_id, turns(2))
            await until(succeeded(at, made, 2))
            await at.lab.experiments.finish(TENANT, made.experiment_id)
            assert await at.ended(started.run_id) is RunStatus.SUCCESS

    asyncio.run(story())


def test_a_run_that_is_pending_can_be_finished(sqlite_url: str) -> None:
    async def story() -> None:
        async with laboratory(sqlite_url, context=CONTEXT, schedules=False) as at:
            made, started = await at.lab.experiments.submit(TENANT, spec(), APPEND)
            await at.lab.experiments.invoke(TENANT, made.experiment_id, turns(1))
            await at.lab.experiments.finish(TENANT, made.experiment_id)
            assert await status(at, made) is RunStatus.DRAINING
            with pytest.raises(ExperimentNotRunning, match="is draining, so it takes no more"):
                await at.lab.experiments.invoke(TENANT, made.experiment_id, turns(2))
        async with laboratory(sqlite_url, context=CONTEXT) as at:
            assert await at.ended(started.run_id) is RunStatus.SUCCESS
            assert (await at.lab.experiments.show(TENANT, made.experiment_id)).stats.success == 1

    asyncio.run(story())


def test_a_killed_append_run_takes_nothing_more(sqlite_url: str) -> None:
    async def story() -> None:
        async with laboratory(sqlite_url, context=CONTEXT) as at:
            made, started = await at.lab.experiments.submit(TENANT, spec(), APPEND)
            with pytest.raises(ExperimentRunning):
                await at.lab.experiments.start(TENANT, made.experiment_id, APPEND)
            await at.lab.experiments.kill(TENANT, made.experiment_id)
            assert await at.ended(started.run_id) is RunStatus.TERMINATED
            with pytest.raises(ExperimentNotRunning):
                await at.lab.experiments.invoke(TENANT, made.experiment_id, turns(1))

    asyncio.run(story())


def test_an_open_run_whose_budget_is_used_up_is_terminated_by_the_next_item(
    sqlite_url: str,
) -> None:
    from dragoman import lab

    def priced(n: int) -> Any:
        return lab.Output(str(n), tokens=10)

    async def story() -> None:
        context = Context(functions={"answer": priced, "judge": judge})
        async with laboratory(sqlite_url, context=context) as at:
            asked = spec(budget=Budget(tokens=20))
            made, started = await at.lab.experiments.submit(TENANT, asked, APPEND)
            await at.lab.experiments.invoke(TENANT, made.experiment_id, turns(1, 2))
            await until(succeeded(at, made, 2))
            await at.lab.experiments.invoke(TENANT, made.experiment_id, turns(3))
            assert await at.ended(started.run_id) is RunStatus.TERMINATED

    asyncio.run(story())


def test_what_an_experiment_cannot_use_is_refused_and_nothing_is_stored(sqlite_url: str) -> None:
    async def story() -> None:
        async with laboratory(sqlite_url, context=CONTEXT) as at:
            invoke = at.lab.experiments.invoke
            made, _ = await at.lab.experiments.submit(TENANT, spec(), APPEND)
            for items, error, words in (
                ([], InvalidMessage, "from 1 to 1,000"),
                (turns(*range(1_001)), InvalidMessage, "1,001 items"),
                ([[]], InvalidMessage, r"items\[0\] has 0 turns"),
                ([[{}]], InvalidMessage, "has 0 columns"),
                ([[{"n": 1}], [{"m": 1}]], SchemaMismatch, r"items\[1\]\.turns\[0\]"),
            ):
                with pytest.raises(error, match=words):
                    await invoke(TENANT, made.experiment_id, items)
            assert await at.rows("SELECT id FROM dataset_item") == []
            with pytest.raises(DatasetEmpty, match="no dataset and no items"):
                await at.lab.experiments.submit(TENANT, spec())

    asyncio.run(story())


def test_a_deleted_experiment_takes_its_items_along(database_url: str) -> None:
    async def story() -> None:
        async with laboratory(database_url, context=CONTEXT) as at:
            made, started = await at.lab.experiments.submit(TENANT, spec(), APPEND)
            await at.lab.experiments.invoke(TENANT, made.experiment_id, turns(1, 2))
            await at.lab.experiments.finish(TENANT, made.experiment_id)
            await at.ended(started.run_id)
            await at.lab.experiments.delete(TENANT, made.experiment_id)
            assert await at.rows("SELECT id FROM dataset_item") == []

    asyncio.run(story())
