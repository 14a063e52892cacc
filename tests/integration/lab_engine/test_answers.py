"""Whole runs with models behind servers: what is cached, what judges cost, what fails alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.lab_engine.laboratory import (
    STEADY,
    TENANT,
    Laboratory,
    add_items,
    laboratory,
)
from tests.servers import TWO_DATABASES
from tests.servers.openai_server import OpenAiServer

from dragoman.clock import SystemClock
from dragoman.errors import InvalidMessage
from dragoman.ids import TenantId
from dragoman.lab.cleaning import Cleaner
from dragoman.lab.model import (
    EvaluatorSpec,
    Experiment,
    ExperimentSpec,
    JsonValue,
    ResultRow,
    TargetSpec,
    VersionId,
)
from dragoman.lab.plugins import Context
from dragoman.lab.response_cache import MAX_ANSWER_BYTES, TenantAnswers
from dragoman.lab.results import Results
from dragoman.lab.roles import EMBEDDED

DATABASE_KINDS = TWO_DATABASES

DAY_MS = 86_400_000


@pytest.fixture
def server() -> Iterator[OpenAiServer]:
    with OpenAiServer() as running:
        yield running


def asking(server: OpenAiServer, model: str = "echo", **settings: Any) -> TargetSpec:
    price = {"input": 1_000_000.0, "output": 0.0}
    given = {"url": server.url, "model": model, "prompt": "{{text}}", "price": price, **settings}
    return TargetSpec("openai", given)


def judged_by(server: OpenAiServer, model: str, name: str = "judge") -> EvaluatorSpec:
    price: JsonValue = {"input": 1_000_000.0, "output": 0.0}
    settings: dict[str, JsonValue] = {
        "url": server.url,
        "model": model,
        "rubric": "Say good.",
        "price": price,
    }
    return EvaluatorSpec("llm_judge", name, settings=settings)


async def run(
    at: Laboratory, name: str, version: VersionId, target: TargetSpec, **options: Any
) -> Experiment:
    return await at.run(ExperimentSpec(name, version, target, **options))


async def rows_of(at: Laboratory, made: Experiment) -> list[ResultRow]:
    rows, _ = await Results(at.store).page(TENANT, made.experiment_id)
    return rows


async def used_by(at: Laboratory, made: Experiment) -> tuple[int, float]:
    stats = (await at.lab.experiments.show(TENANT, made.experiment_id)).stats
    return stats.tokens, stats.cost


# --- the answer cache -------------------------------------------------------------------------


def test_a_question_is_asked_once_when_the_experiment_wants_the_cache(
    database_url: str, server: OpenAiServer
) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            items = [[{"text": "one", "note": "a"}], [{"text": "two", "note": "b"}]]
            version, _ = await add_items(at.store, items)
            # The same question: a column that the prompt does not use is another one.
            other, _ = await add_items(at.store, [[{"text": "one", "note": "c"}]])

            first = await run(at, "first", version, asking(server), cache=True)
            again = await run(at, "again", version, asking(server), cache=True)
            third = await run(at, "third", other, asking(server), cache=True)
            without = await run(at, "without", version, asking(server))

            assert [row.cached for row in await rows_of(at, first)] == [False, False]
            assert await used_by(at, first) == (30, 20.0)
            for made, texts in ((again, ["one", "two"]), (third, ["one"])):
                rows = await rows_of(at, made)
                assert [row.output["output"] for row in rows] == texts
                for row in rows:
                    assert row.cached
                    assert (row.tokens, row.cost, row.latency_ms) == (None, None, None)
                assert await used_by(at, made) == (0, 0.0)
            assert [row.cached for row in await rows_of(at, without)] == [False, False]
            assert len(server.asked) == 4

    asyncio.run(story())


def test_another_setting_is_another_question_and_another_key_is_not(
    sqlite_url: str, server: OpenAiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONE_KEY", "sk-1")
    monkeypatch.setenv("OTHER_KEY", "sk-2")

    async def story() -> None:
        async with laboratory(sqlite_url) as at:
            version, _ = await add_items(at.store, [[{"text": "one"}]])
            different: list[dict[str, Any]] = [
                {"api_key_env": "ONE_KEY"},
                {"api_key_env": "OTHER_KEY", "timeout_seconds": 9},
                {"temperature": 0.5},
                {"system": "Be kind."},
                {"model": "echo/2"},
            ]
            for number, settings in enumerate(different):
                await run(at, f"{number}", version, asking(server, **settings), cache=True)
            assert len(server.asked) == 4

    asyncio.run(story())


def test_failures_are_not_kept_and_are_tried_again(sqlite_url: str, server: OpenAiServer) -> None:
    async def story() -> None:
        async with laboratory(sqlite_url) as at:
            version, _ = await add_items(at.store, [[{"text": "one"}]])
            made = await run(at, "a", version, asking(server, "fails-twice"), cache=True)
            [row] = await rows_of(at, made)
            assert row.output["output"] == "one"
            assert not row.cached
            assert server.counts["fails-twice"] == 3
            assert await at.rows("SELECT count(*) FROM response_cache") == [(1,)]

    asyncio.run(story())


def test_each_tenant_has_answers_of_its_own(database_url: str, server: OpenAiServer) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            clock = SystemClock()
            ours = TenantAnswers(at.store, TENANT, clock)
            theirs = TenantAnswers(at.store, TenantId("other"), clock)
            await ours.keep("k", b'"mine"')
            await ours.keep("k", b'"the first one stays"')
            assert await ours.find("k") == b'"mine"'
            assert await theirs.find("k") is None
            await theirs.keep("k", b'"yours"')

            assert await at.lab.clear_answers(TENANT) == 1
            assert await ours.find("k") is None
            assert await theirs.find("k") == b'"yours"'

    asyncio.run(story())


def test_what_cannot_be_kept_is_answered_all_the_same(
    database_url: str, server: OpenAiServer
) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            answers = TenantAnswers(at.store, TENANT, SystemClock())
            await answers.keep("long", b'"' + b"x" * MAX_ANSWER_BYTES + b'"')
            await answers.keep("nul", b'"\\u0000"')
            assert await answers.find("long") is None
            assert await answers.find("nul") is None

    asyncio.run(story())


def test_old_answers_and_those_that_are_too_many_are_removed(database_url: str) -> None:
    class Moved(SystemClock):
        moved_ms = 0

        def now_ms(self) -> int:
            return super().now_ms() + self.moved_ms

    async def story() -> None:
        clock = Moved()
        async with laboratory(database_url) as at:
            answers = TenantAnswers(at.store, TENANT, clock)
            for day in range(10):
                clock.moved_ms = day * DAY_MS
                await answers.keep(f"{day}", b'"x"')

            async def kept() -> list[Any]:
                return [
                    key for (key,) in await at.rows("SELECT c.key FROM response_cache c ORDER BY 1")
                ]

            few = STEADY.model_copy(update={"cache_answers": 6, "cache_days": 0})
            await Cleaner(at.store, clock, settings=few).clean()
            assert await kept() == [f"{day}" for day in range(4, 10)]
            young = STEADY.model_copy(update={"cache_days": 3})
            await Cleaner(at.store, clock, settings=young).clean()
            assert await kept() == ["7", "8", "9"]

    asyncio.run(story())


def count_calls(text: str) -> str:
    """A plain function of this module."""
    _calls.append(text)
    return text.upper()


_calls: list[str] = []


def test_functions_are_cached_by_their_text_and_closures_are_refused(sqlite_url: str) -> None:
    suffix = "!"

    def closure(text: str) -> str:
        return text + suffix

    async def story() -> None:
        context = Context(functions={"mine": count_calls, "closure": closure})
        async with laboratory(sqlite_url, context=context, role=EMBEDDED) as at:
            version, _ = await add_items(at.store, [[{"text": "a"}]])
            _calls.clear()
            for name in ("one", "two"):
                target = TargetSpec("python", {"function": "mine"})
                made = await run(at, name, version, target, cache=True)
            assert _calls == ["a"]
            assert [row.cached for row in await rows_of(at, made)] == [True]
            target = TargetSpec("python", {"function": "closure"})
            with pytest.raises(InvalidMessage, match="keeps values of its own") as raised:
                await run(at, "three", version, target, cache=True)
            assert raised.value.details["field"] == "cache"
            await run(at, "four", version, target)

    asyncio.run(story())


def test_conversations_are_cached_with_what_was_said_before(
    sqlite_url: str, server: OpenAiServer
) -> None:
    async def story() -> None:
        async with laboratory(sqlite_url) as at:
            talks = [[{"text": "a"}, {"text": "c"}], [{"text": "b"}, {"text": "c"}]]
            version, _ = await add_items(at.store, talks)
            await run(at, "one", version, asking(server), cache=True)
            assert len(server.asked) == 4, "the second turns have different histories"
            again = await run(at, "two", version, asking(server), cache=True)
            assert all(row.cached for row in await rows_of(at, again))
            assert len(server.asked) == 4

    asyncio.run(story())


# --- the first token --------------------------------------------------------------------------


def test_the_first_token_is_stored_beside_the_latency(
    database_url: str, server: OpenAiServer
) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version, _ = await add_items(at.store, [[{"text": "one"}]])
            made = await run(at, "a", version, asking(server, stream=True))
            [row] = await rows_of(at, made)
            assert row.first_token_ms is not None
            assert row.latency_ms is not None
            assert 0 < row.first_token_ms <= row.latency_ms

    asyncio.run(story())


def test_a_rate_limit_is_waited_out_and_costs_no_try(sqlite_url: str, server: OpenAiServer) -> None:
    async def story() -> None:
        async with laboratory(sqlite_url) as at:
            version, _ = await add_items(at.store, [[{"text": "one"}]])
            made = await run(at, "a", version, asking(server, "busy-once"), retries=0)
            [row] = await rows_of(at, made)
            assert (row.status, row.output["output"]) == ("success", "one")

    asyncio.run(story())


# --- judges -----------------------------------------------------------------------------------


def test_what_judges_use_up_is_counted_to_the_experiment(
    database_url: str, server: OpenAiServer
) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version, _ = await add_items(at.store, [[{"text": "good"}], [{"text": "bad"}]])
            judges = (judged_by(server, "rubric-judge"),)
            made = await run(at, "a", version, asking(server), evaluators=judges)
            rows = await rows_of(at, made)
            assert [row.scores["judge"].score for row in rows] == [5.0, 1.0]
            assert [row.tokens for row in rows] == [15, 15], "a row tells the target's own"
            assert await used_by(at, made) == (60, 40.0)

            again = await run(at, "b", version, asking(server), evaluators=judges)
            assert await used_by(at, again) == (30, 20.0), "the judge was not asked again"

    asyncio.run(story())


def test_a_judge_that_is_no_use_fails_its_score_and_disturbs_nothing_else(
    database_url: str, server: OpenAiServer
) -> None:
    async def story() -> None:
        async with laboratory(database_url) as at:
            version, _ = await add_items(at.store, [[{"text": "good"}]] * 2)
            judges = tuple(
                judged_by(server, model, model)
                for model in ("prose-judge", "rubric-judge", "empty-judge", "huge-judge")
            )
            made = await run(at, "a", version, asking(server), evaluators=judges)
            for row in await rows_of(at, made):
                assert row.output["output"] == "good"
                assert row.error_code == "EVALUATOR_ERROR"
                assert row.scores["rubric-judge"].score == 5.0
                for name in ("prose-judge", "empty-judge", "huge-judge"):
                    assert row.scores[name].score is None
                    assert row.scores[name].error_code == "EVALUATOR_ERROR"
                    assert "cannot be used" in str(row.scores[name].error_message)
            assert server.counts["prose-judge"] == 4, "two items, one repair each, no further try"
            tokens, _ = await used_by(at, made)
            # The targets, a judge that is asked for one or both, three that are asked twice.
            assert tokens in (15 * (2 + 1 + 12), 15 * (2 + 2 + 12))

    asyncio.run(story())


def test_a_judges_rate_limit_is_waited_out(sqlite_url: str, server: OpenAiServer) -> None:
    async def story() -> None:
        async with laboratory(sqlite_url) as at:
            version, _ = await add_items(at.store, [[{"text": "good"}]])
            settings = {**judged_by(server, "busy-second").settings, "votes": 3}
            judge = EvaluatorSpec("llm_judge", "judge", settings=settings)
            made = await run(at, "a", version, asking(server), evaluators=(judge,), retries=0)
            [row] = await rows_of(at, made)
            assert row.scores["judge"].score == 5.0
            assert await used_by(at, made) == (4 * 15, 40.0)

    asyncio.run(story())
