"""What is refused before anything is stored."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.integration.lab_engine.laboratory import (
    QUICK,
    TENANT,
    Laboratory,
    add_items,
    experiment,
    laboratory,
)
from tests.servers import TWO_DATABASES

from dragoman.errors import (
    BudgetExceeded,
    DatasetEmpty,
    DeniedWord,
    DragomanError,
    InvalidMessage,
    NameTaken,
    NotFound,
    QuotaExceeded,
    SchemaMismatch,
)
from dragoman.ids import TenantId
from dragoman.lab.experiments import StartAsk
from dragoman.lab.model import Budget, EvaluatorSpec, ItemId, TargetSpec, VersionId
from dragoman.lab.states import RunMode

DATABASE_KINDS = TWO_DATABASES

URL = "http://127.0.0.1:9/v1"
MODEL: dict[str, Any] = {"url": URL, "model": "m", "prompt": "{{key}}"}
JUDGE: dict[str, Any] = {"url": URL, "model": "m", "rubric": "Is it good?"}

REFUSED: list[tuple[str, dict[str, Any], type[DragomanError], str]] = [
    ("no name", {"name": "  "}, InvalidMessage, "name"),
    ("a denied word", {"name": "my Secret plan"}, DeniedWord, "secret"),
    ("a denied word in Chinese", {"description": "这是机密文件"}, DeniedWord, "机密"),
    ("an unknown dataset", {"dataset_version_id": VersionId("v-0")}, NotFound, "v-0"),
    ("an unknown column", {"mapping": {"key": "nothing"}}, SchemaMismatch, "nothing"),
    ("an unknown target", {"target": TargetSpec("magic")}, InvalidMessage, "magic"),
    ("no concurrency", {"concurrency": 0}, InvalidMessage, "concurrency"),
    ("too much concurrency", {"concurrency": 501}, InvalidMessage, "500"),
    ("retries below zero", {"retries": -1}, InvalidMessage, "retries"),
    ("no time", {"time_limit_seconds": 0.0}, InvalidMessage, "time_limit_seconds"),
    ("a budget of nothing", {"budget": Budget(tokens=0)}, InvalidMessage, r"budget\.tokens is 0"),
    ("a budget below 0", {"budget": Budget(cost=-0.5)}, InvalidMessage, r"budget\.cost is -0\.5"),
    (
        "more than the tenant has left",
        {"budget": Budget(tokens=1001)},
        BudgetExceeded,
        "asks for 1,001 tokens, and the tenant has 1,000 left",
    ),
    (
        "a budget of cost and a model without a price",
        {"budget": Budget(cost=0.5), "target": TargetSpec("openai", MODEL)},
        InvalidMessage,
        r"cost of the target cannot be counted: the model 'm' has no price; give `target.price`",
    ),
    (
        "a budget of cost and a voice",
        {
            "budget": Budget(cost=0.5),
            "target": TargetSpec("openai", {**MODEL, "api": "speech", "price": {"input": 1}}),
        },
        InvalidMessage,
        "cost of the target cannot be counted: .* reports no tokens",
    ),
    (
        "a budget of cost and an answer without one",
        {"budget": Budget(cost=0.5), "target": TargetSpec("http", {"url": URL, "output": "$"})},
        InvalidMessage,
        "cost of the target cannot be counted: `target.cost` is missing; give the JSONPath",
    ),
    (
        "a budget of cost and a judge without a price",
        {
            "budget": Budget(cost=0.5),
            "evaluators": (EvaluatorSpec("llm_judge", "fluent", settings=JUDGE),),
        },
        InvalidMessage,
        "cost of the score 'fluent' cannot be counted: .*give `evaluator.price`",
    ),
    ("a clock", {"cron": "* * * * * * *"}, InvalidMessage, "cron.*five fields"),
    ("a name over two lines", {"name": "one\ntwo"}, InvalidMessage, "printable"),
    ("a nameless evaluator", {"evaluators": (EvaluatorSpec("exact", ""),)}, InvalidMessage, "''"),
    (
        "an evaluator with a weight",
        {"evaluators": (EvaluatorSpec("exact", "a", 2.0, {"reference": "key"}),)},
        InvalidMessage,
        "'a' has the weight.*only a composite",
    ),
    (
        "two evaluators of one name",
        {"evaluators": (EvaluatorSpec("exact", "a"), EvaluatorSpec("exact", "a"))},
        InvalidMessage,
        "'a'",
    ),
]

STRICT = QUICK.model_copy(
    update={"denied_words": ("secret", "机密"), "tenant_tokens": 1000, "running_experiments": 2}
)


async def nothing_was_stored(at: Laboratory) -> bool:
    return not await at.rows("SELECT id FROM experiment") and not await at.rows(
        "SELECT id FROM run_log"
    )


@pytest.mark.parametrize(("what", "changes", "error", "named"), REFUSED)
def test_an_experiment_that_cannot_work_is_refused_and_leaves_nothing(
    sqlite_url: str, what: str, changes: dict[str, Any], error: type[DragomanError], named: str
) -> None:
    async def story() -> None:
        async with laboratory(sqlite_url, STRICT) as at:
            version, _ = await add_items(at.store, [[{"key": "k", "calls": ""}]])
            spec = msgspec.structs.replace(experiment(version, "hang"), **changes)
            with pytest.raises(error, match=named):
                await at.lab.experiments.submit(TENANT, spec)
            assert await nothing_was_stored(at)

    asyncio.run(story())


def test_words_are_denied_as_words(sqlite_url: str) -> None:
    async def story() -> None:
        async with laboratory(sqlite_url, STRICT) as at:
            version, _ = await add_items(at.store, [[{"key": "k", "calls": ""}]])
            spec = experiment(version, "hang", name="the secretary's letters")
            made = await at.lab.experiments.create(TENANT, spec)
            assert made.spec.name == "the secretary's letters"

    asyncio.run(story())


def test_a_name_belongs_to_one_experiment_of_a_tenant(database_url: str) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version, _ = await add_items(at.store, [[{"key": "k", "calls": ""}]])
            spec = experiment(version, "hang", name="mine")
            made = [at.lab.experiments.create(TENANT, spec) for _ in range(4)]
            outcomes = await asyncio.gather(*made, return_exceptions=True)
            assert sum(isinstance(one, NameTaken) for one in outcomes) == 3
            assert len(await at.rows("SELECT id FROM experiment")) == 1

    asyncio.run(story())


def test_an_empty_dataset_cannot_be_run(database_url: str) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version, _ = await add_items(at.store, [])
            # Also one whose functions ask for columns, which an empty dataset cannot have.
            for target in ("answer_anything", "hang"):
                with pytest.raises(DatasetEmpty, match="no items"):
                    await at.lab.experiments.submit(TENANT, experiment(version, target))
            assert await nothing_was_stored(at)

    asyncio.run(story())


def test_a_tenant_runs_no_more_experiments_than_it_may(database_url: str) -> None:
    async def story() -> None:
        async with laboratory(database_url, STRICT) as at:
            version, _ = await add_items(at.store, [[{"key": "k", "calls": "/dev/null"}]])
            submits = [
                at.lab.experiments.submit(TENANT, experiment(version, "hang")) for _ in range(5)
            ]
            outcomes = await asyncio.gather(*submits, return_exceptions=True)
            refused = [one for one in outcomes if isinstance(one, QuotaExceeded)]
            assert len(refused) == 3
            assert len(await at.rows("SELECT id FROM run_log")) == 2
            # A refused submit stores nothing, so its name is free.
            assert len(await at.rows("SELECT id FROM experiment")) == 2

    asyncio.run(story())


def test_other_tenants_do_not_see_it(sqlite_url: str) -> None:
    async def story() -> None:
        async with laboratory(sqlite_url) as at:
            version, _ = await add_items(at.store, [[{"key": "k", "calls": ""}]])
            made = await at.lab.experiments.create(TENANT, experiment(version, "hang"))
            other = TenantId("other")
            for ask in (at.lab.experiments.show, at.lab.experiments.kill, at.lab.experiments.runs):
                with pytest.raises(NotFound):
                    await ask(other, made.experiment_id)
            with pytest.raises(NotFound):
                await at.lab.experiments.start(other, made.experiment_id)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("ask", "named"),
    [
        (StartAsk(RunMode.RETRY_ITEMS), "item_ids"),
        (StartAsk(RunMode.SUBMIT, item_ids=(ItemId("i"),)), "item_ids"),
        (StartAsk(RunMode.TRIAL), "trial_items"),
        (StartAsk(RunMode.TRIAL, trial_items=0), "from 1"),
        (StartAsk(RunMode.TRIAL, trial_items=10**30), "from 1"),
    ],
)
def test_a_start_that_says_too_little_or_too_much_is_refused(
    sqlite_url: str, ask: StartAsk, named: str
) -> None:
    async def story() -> None:
        async with laboratory(sqlite_url) as at:
            version, _ = await add_items(at.store, [[{"key": "k", "calls": ""}]])
            made = await at.lab.experiments.create(TENANT, experiment(version, "hang"))
            with pytest.raises(InvalidMessage, match=named):
                await at.lab.experiments.start(TENANT, made.experiment_id, ask)

    asyncio.run(story())


def test_items_that_the_dataset_does_not_have_are_named(sqlite_url: str) -> None:
    async def story() -> None:
        async with laboratory(sqlite_url) as at:
            version, _ = await add_items(at.store, [[{"key": "k", "calls": ""}]])
            made = await at.lab.experiments.create(TENANT, experiment(version, "hang"))
            ask = StartAsk(RunMode.RETRY_ITEMS, item_ids=(ItemId("i-nowhere"),))
            with pytest.raises(NotFound, match="i-nowhere"):
                await at.lab.experiments.start(TENANT, made.experiment_id, ask)

    asyncio.run(story())
