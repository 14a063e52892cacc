"""Budgets stop a run: what is used up beyond them is at most what was in progress."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.integration.lab_engine.laboratory import (
    STEADY,
    TENANT,
    Laboratory,
    add_items,
    laboratory,
    until,
)
from typer.testing import CliRunner

from dragoman import lab
from dragoman.audit import AuditEntry, AuditFilter, AuditStore
from dragoman.cli.lab_upkeep import app
from dragoman.errors import BudgetExceeded, InvalidMessage, QuotaExceeded
from dragoman.ids import TenantId, new_id
from dragoman.lab.budgets import Quota
from dragoman.lab.experiments import StartAsk
from dragoman.lab.model import (
    Budget,
    Experiment,
    ExperimentSpec,
    ItemId,
    RunId,
    TargetSpec,
    VersionId,
)
from dragoman.lab.plugins import Context
from dragoman.lab.repository import quotas, spending
from dragoman.lab.states import RunMode, RunStatus
from dragoman.store import open_store

SEED = 20_261_117
CONCURRENCY = 32
ITEMS = 300
TOKENS = 10
COST = 0.25
RETRY = StartAsk(RunMode.FAIL_RETRY)


class Model:
    """Answers after a short while, for a price, and knows whom it answered."""

    def __init__(self, *, seed: int = SEED) -> None:
        self.called: list[int] = []
        self.at_once = 0
        self.most_at_once = 0
        self._random = Random(seed)

    async def answer(self, n: int) -> lab.Output:
        self.called.append(n)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(self._random.uniform(0, 0.02))
        self.at_once -= 1
        return lab.Output(str(n), tokens=TOKENS, cost=COST)

    @property
    def context(self) -> Context:
        return Context(functions={"answer": self.answer})


def paid(version: VersionId, budget: Budget, **options: Any) -> ExperimentSpec:
    return ExperimentSpec(
        name=new_id(Random(), "paid"),
        dataset_version_id=version,
        target=TargetSpec("python", {"function": "answer"}),
        concurrency=options.pop("concurrency", CONCURRENCY),
        budget=budget,
        **options,
    )


async def items(at: Laboratory, count: int = ITEMS) -> tuple[VersionId, list[ItemId]]:
    return await add_items(at.store, [[{"n": n}] for n in range(count)])


async def shown(at: Laboratory, made: Experiment) -> dict[tuple[str, str | None], int]:
    """How many rows users see in each state, with each code."""
    rows = await at.rows(
        "SELECT status, error_code, count(*) FROM turn_result WHERE experiment_id = :e "
        "GROUP BY status, error_code",
        e=made.experiment_id,
    )
    return {(status, code): number for status, code, number in rows}


async def told(at: Laboratory, run_id: RunId) -> tuple[str, str]:
    [row] = await at.rows("SELECT status, reason FROM run_log WHERE id = :run", run=run_id)
    return row[0], row[1]


@pytest.mark.parametrize(
    ("budget", "raised", "allowed"),
    [
        (Budget(tokens=1_000), Budget(tokens=100_000), 100),
        (Budget(cost=25.0), Budget(cost=2_500.0), 100),
        (Budget(tokens=1_000_000, cost=10.0), Budget(), 40),
    ],
    ids=["tokens", "cost", "the smaller of both"],
)
def test_a_run_stops_at_its_budget_and_goes_on_when_it_is_raised(
    database_url: str, budget: Budget, raised: Budget, allowed: int
) -> None:
    model = Model()

    async def story() -> None:
        async with laboratory(database_url, context=model.context) as at:
            version, _ = await items(at)
            made, started = await at.lab.experiments.submit(TENANT, paid(version, budget))
            assert await at.ended(started.run_id) is RunStatus.TERMINATED

            calls = len(model.called)
            assert allowed <= calls <= allowed + CONCURRENCY
            assert model.most_at_once <= CONCURRENCY
            # What was called was paid for, and is kept; the rest says why it was not called.
            assert await shown(at, made) == {
                ("success", None): calls,
                ("terminated", "BUDGET_EXCEEDED"): ITEMS - calls,
            }
            spent = await at.store.read(
                lambda c: spending.spent_by_experiment(c, made.experiment_id)
            )
            assert (spent.tokens, spent.cost) == (calls * TOKENS, calls * COST)
            status, reason = await told(at, started.run_id)
            assert status == "terminated"
            assert "budget; raise the budget, then go on with mode fail_retry" in reason

            with pytest.raises(BudgetExceeded, match="raise the budget first"):
                await at.lab.experiments.start(TENANT, made.experiment_id, RETRY)
            await at.lab.experiments.change(TENANT, made.experiment_id, budget=raised)
            resumed = await at.lab.experiments.start(TENANT, made.experiment_id, RETRY)
            assert await at.ended(resumed.run_id) is RunStatus.SUCCESS
            assert await shown(at, made) == {("success", None): ITEMS}
            assert sorted(model.called) == list(range(ITEMS))

    asyncio.run(story())


def test_an_experiment_with_cron_that_its_budget_stopped_goes_on_and_pays_nothing_twice(
    database_url: str,
) -> None:
    model = Model()

    async def next_run(at: Laboratory, made: Experiment) -> int | None:
        return (await at.lab.experiments.show(TENANT, made.experiment_id)).experiment.next_run_at_ms

    async def story() -> None:
        async with laboratory(database_url, context=model.context) as at:
            version, _ = await items(at)
            experiments, append = at.lab.experiments, StartAsk(RunMode.APPEND)
            nightly = paid(version, Budget(tokens=500), cron="0 3 1 1 *")
            made, started = await experiments.submit(TENANT, nightly, append)
            # Stopped twice: the budget is raised by too little at first.
            for budget in (Budget(tokens=1_500), Budget(tokens=100_000)):
                assert await at.ended(started.run_id) is RunStatus.TERMINATED
                assert "then go on with mode fail_retry" in (await told(at, started.run_id))[1]
                assert await next_run(at, made) is None
                await experiments.change(TENANT, made.experiment_id, budget=budget)
                started = await experiments.start(TENANT, made.experiment_id, RETRY)
                assert await next_run(at, made) is not None, "its times go on"
            assert await at.ended(started.run_id) is RunStatus.SUCCESS
            assert sorted(model.called) == list(range(ITEMS))
            assert await shown(at, made) == {("success", None): ITEMS}
            with pytest.raises(InvalidMessage, match="can only be started in mode append"):
                await experiments.start(TENANT, made.experiment_id, RETRY)

    asyncio.run(story())


def test_a_budget_that_the_last_items_use_up_lets_the_run_succeed(database_url: str) -> None:
    model = Model()

    async def story() -> None:
        async with laboratory(database_url, context=model.context) as at:
            version, _ = await items(at, 20)
            spec = paid(version, Budget(tokens=20 * TOKENS), concurrency=4)
            made, started = await at.lab.experiments.submit(TENANT, spec)
            assert await at.ended(started.run_id) is RunStatus.SUCCESS
            assert await shown(at, made) == {("success", None): 20}

    asyncio.run(story())


def test_a_budget_that_is_raised_in_time_stops_nothing(sqlite_url: str) -> None:
    model = Model()

    async def story() -> None:
        async with laboratory(sqlite_url, context=model.context) as at:
            version, _ = await items(at)
            spec = paid(version, Budget(tokens=1_500), concurrency=4)
            made, started = await at.lab.experiments.submit(TENANT, spec)
            await until(_called(model, 30))
            await at.lab.experiments.change(TENANT, made.experiment_id, budget=Budget(tokens=9_999))
            assert await at.ended(started.run_id) is RunStatus.SUCCESS
            assert len(model.called) == ITEMS

    asyncio.run(story())


def test_a_budget_that_is_lowered_below_what_was_spent_stops_the_run_soon(
    sqlite_url: str,
) -> None:
    model = Model()

    async def story() -> None:
        async with laboratory(sqlite_url, context=model.context) as at:
            version, _ = await items(at, 2_000)
            made, started = await at.lab.experiments.submit(
                TENANT, paid(version, Budget(tokens=100_000), concurrency=4)
            )
            await until(_called(model, 20))
            await at.lab.experiments.change(TENANT, made.experiment_id, budget=Budget(tokens=1))
            assert await at.ended(started.run_id) is RunStatus.TERMINATED
            assert len(model.called) < 2_000

    asyncio.run(story())


def test_the_runs_of_a_tenant_stop_when_its_balance_is_used_up_and_others_go_on(
    database_url: str,
) -> None:
    model, limit, concurrency = Model(), 1_000, 8
    settings = STEADY.model_copy(update={"tenant_tokens": limit})

    async def story() -> None:
        async with laboratory(database_url, settings, context=model.context) as at:
            version, _ = await items(at, 200)
            starts = [
                await at.lab.experiments.submit(
                    TENANT, paid(version, Budget(), concurrency=concurrency)
                )
                for _ in range(2)
            ]
            for made, started in starts:
                assert await at.ended(started.run_id) is RunStatus.TERMINATED
                assert ("terminated", "BUDGET_EXCEEDED") in await shown(at, made)
                _, reason = await told(at, started.run_id)
                assert "The tenant has used up" in reason
            spent = await at.store.read(lambda c: spending.spent_by_tenant(c, TENANT))
            assert limit <= spent.tokens <= limit + 2 * concurrency * TOKENS

            first = starts[0][0]
            with pytest.raises(BudgetExceeded, match="tenant has used up"):
                await at.lab.experiments.start(TENANT, first.experiment_id, RETRY)
            with pytest.raises(BudgetExceeded, match="tenant has used up"):
                await at.lab.experiments.create(TENANT, paid(version, Budget()))
            other = await at.store.read(lambda c: spending.spent_by_tenant(c, TenantId("globex")))
            assert other.tokens == 0

        higher = STEADY.model_copy(update={"tenant_tokens": 100_000})
        async with laboratory(database_url, higher, context=model.context) as at:
            for made, _ in starts:
                resumed = await at.lab.experiments.start(TENANT, made.experiment_id, RETRY)
                assert await at.ended(resumed.run_id) is RunStatus.SUCCESS
            assert sorted(model.called) == sorted([*range(200), *range(200)])

    asyncio.run(story())


def test_limits_of_one_tenant_come_before_those_of_the_settings(database_url: str) -> None:
    model, concurrency = Model(), 8
    settings = STEADY.model_copy(update={"tenant_tokens": 100, "running_experiments": 1})

    async def story() -> None:
        async with laboratory(database_url, settings, context=model.context) as at:
            version, _ = await items(at, 200)

            async def submit(**options: Any) -> tuple[Experiment, RunId]:
                spec = paid(version, Budget(), concurrency=concurrency)
                made, started = await at.lab.experiments.submit(TENANT, spec, **options)
                return made, started.run_id

            async def limit(**wanted: Any) -> None:
                await at.store.write(lambda c: quotas.set_quota(c, TENANT, Quota(**wanted)))

            await limit(tokens=1_000)
            _, run_id = await submit()
            assert await at.ended(run_id) is RunStatus.TERMINATED
            spent = await at.store.read(lambda c: spending.spent_by_tenant(c, TENANT))
            assert 1_000 <= spent.tokens <= 1_000 + concurrency * TOKENS
            with pytest.raises(BudgetExceeded, match="dragoman lab quota"):
                await submit()

            await limit(tokens=0, running_experiments=2)
            open_runs = [await submit(ask=StartAsk(RunMode.APPEND)) for _ in range(2)]
            with pytest.raises(QuotaExceeded, match=r"2 experiments .* and 2 may"):
                await submit()
            await limit(running_experiments=0, tokens=0)
            for one, opened in open_runs:
                await at.lab.experiments.finish(TENANT, one.experiment_id)
                assert await at.ended(opened) is RunStatus.SUCCESS, "0 tokens: no limit"
            with pytest.raises(QuotaExceeded, match="and 0 may"):
                await submit()
            await limit()
            with pytest.raises(BudgetExceeded, match="of 100 tokens"):
                await submit()

    asyncio.run(story())


def test_a_limit_that_is_lowered_while_a_run_is_under_way_stops_it(sqlite_url: str) -> None:
    model = Model()

    async def story() -> None:
        async with laboratory(sqlite_url, context=model.context) as at:
            version, _ = await items(at, 5_000)
            spec = paid(version, Budget(), concurrency=4)
            _, started = await at.lab.experiments.submit(TENANT, spec)
            await until(_called(model, 20))
            await at.store.write(lambda c: quotas.set_quota(c, TENANT, Quota(tokens=50)))
            assert await at.ended(started.run_id) is RunStatus.TERMINATED
            assert len(model.called) < 5_000

    asyncio.run(story())


def test_a_budget_cannot_be_raised_above_what_the_tenant_has_left(sqlite_url: str) -> None:
    model = Model()
    settings = STEADY.model_copy(update={"tenant_tokens": 1_000})

    async def story() -> None:
        async with laboratory(sqlite_url, settings, context=model.context) as at:
            version, _ = await items(at, 30)
            made, started = await at.lab.experiments.submit(
                TENANT, paid(version, Budget(tokens=900))
            )
            assert await at.ended(started.run_id) is RunStatus.SUCCESS  # 300 tokens
            change = at.lab.experiments.change
            with pytest.raises(BudgetExceeded, match=r"asks for 701 tokens.* has 700 left"):
                await change(TENANT, made.experiment_id, budget=Budget(tokens=1_001))
            await change(TENANT, made.experiment_id, budget=Budget(tokens=1_000))
            with pytest.raises(BudgetExceeded, match="asks for 701 tokens"):
                await at.lab.experiments.create(TENANT, paid(version, Budget(tokens=701)))

    asyncio.run(story())


def test_the_deadline_of_money_survives_the_process_that_watched_it(sqlite_url: str) -> None:
    """All is asked of the database: a lab that is started anew stops at the same place."""
    model = Model()

    async def story() -> None:
        async with laboratory(sqlite_url, context=model.context) as at:
            version, _ = await items(at)
            spec = paid(version, Budget(tokens=1_500), concurrency=4)
            _, started = await at.lab.experiments.submit(TENANT, spec)
            await until(_called(model, 60))
        async with laboratory(sqlite_url, context=model.context) as at:
            assert await at.ended(started.run_id) is RunStatus.TERMINATED
            spent = await at.store.read(lambda c: spending.spent_by_tenant(c, TENANT))
            assert 1_500 <= spent.tokens <= 1_500 + 4 * TOKENS

    asyncio.run(story())


def _called(model: Model, times: int) -> Callable[[], Awaitable[bool]]:
    async def reached() -> bool:
        return len(model.called) >= times

    return reached


def test_limits_of_a_tenant_are_set_shown_and_cleared_by_hand(tmp_path: Path) -> None:
    where = ["--data-dir", str(tmp_path / "data"), "--json"]

    def ask(*options: str) -> Any:
        answered = CliRunner().invoke(app, ["quota", *options, *where])
        assert answered.exit_code == 0, answered.output
        return json.loads(answered.output)["quotas"]

    limits = ("max_tokens", "max_cost", "max_running_experiments")
    assert ask() == []
    [found] = ask("acme", "--tokens", "5000")
    assert [found[name] for name in limits] == [5_000, None, 200]
    [found] = ask("acme", "--running-experiments", "3", "--cost", "2.5")
    assert [found[name] for name in limits] == [5_000, 2.5, 3]
    assert [one["tenant"] for one in ask()] == ["acme"]
    [found] = ask("acme", "--clear")
    assert [found[name] for name in limits] == [None, None, 200]
    assert ask() == []
    for bad in (["--tokens", "5"], ["acme", "--clear", "--tokens", "5"], ["acme", "--cost", "inf"]):
        assert CliRunner().invoke(app, ["quota", *bad, *where]).exit_code == 2, bad

    async def entries() -> list[AuditEntry]:
        url = f"sqlite:///{tmp_path / 'data' / 'dragoman.db'}"
        async with await open_store(url) as store:
            return await AuditStore(store).page(10, AuditFilter(subject="acme"))

    kept = asyncio.run(entries())
    assert {one.actor.partition(":")[0] for one in kept} == {"cli"}
    told = [(one.action, one.facts) for one in reversed(kept)]
    assert told == [
        ("quota.set", {"tokens": 5_000}),
        ("quota.set", {"running_experiments": 3, "tokens": 5_000, "cost": 2.5}),
        ("quota.clear", {}),
    ]
