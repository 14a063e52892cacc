"""The pace of a target: how a budget is shared, and what a worker begins with."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.clock import SystemClock
from dragoman.ids import TenantId
from dragoman.lab.model import JsonValue, TargetSpec
from dragoman.lab.pace import Learned, shares_of, target_key, target_title
from dragoman.lab.targets import TARGETS
from dragoman.lab.worker.execution.limiter import Limiter

ACME = TenantId("acme")


class Still(SystemClock):
    """Time stands still: only the first step is made."""

    def monotonic(self) -> float:
        return 1000.0


@given(st.integers(0, 50), st.dictionaries(st.text("abc", min_size=1), st.integers(0, 30)))
def test_shares_use_the_budget_up_and_no_more(most: int, wanted: dict[str, int]) -> None:
    shares = shares_of(most, wanted)
    assert shares.keys() == wanted.keys()
    assert sum(shares.values()) == min(most, sum(wanted.values()))
    assert all(0 <= shares[name] <= wanted[name] for name in wanted)


@given(st.integers(0, 50), st.dictionaries(st.text("abc", min_size=1), st.integers(0, 30)))
def test_who_wants_as_much_as_another_gets_as_much_up_to_one(
    most: int, wanted: dict[str, int]
) -> None:
    shares = shares_of(most, wanted)
    for one in wanted:
        for other in wanted:
            if shares[one] < wanted[one]:
                assert shares[other] <= shares[one] + 1, "what one lacks another does not have"


def model(**settings: JsonValue) -> TargetSpec:
    return TargetSpec("openai", {"url": "https://u:p@host/v1?key=k", "model": "m", **settings})


def test_a_target_is_the_same_for_all_experiments_that_call_it() -> None:
    one = target_key(ACME, model(prompt="a"))
    assert one == target_key(ACME, model(prompt="b"))
    assert one != target_key(ACME, model(model="n", prompt="a"))
    assert one != target_key(TenantId("globex"), model(prompt="a"))
    assert target_title(model()) == "openai https://host/v1 m"


def test_a_target_that_is_called_with_another_key_has_a_pace_of_its_own() -> None:
    none, one, other = model(), model(api_key_env="KEY_1"), model(api_key_env="KEY_2")
    assert len({target_key(ACME, each) for each in (none, one, other)}) == 3
    assert target_key(ACME, one) == target_key(ACME, model(api_key_env="KEY_1", prompt="b"))
    assert "KEY_1" not in target_title(one)


def test_a_key_in_a_header_is_a_key_as_well() -> None:
    def sent(value: str, **others: str) -> str:
        headers: dict[str, JsonValue] = {"Authorization": value, **others}
        return target_key(ACME, TargetSpec("http", {"url": "http://host/", "headers": headers}))

    one = sent("Bearer env:KEY_1")
    assert one != sent("Bearer env:KEY_2")
    assert one != sent("env:KEY_1", cookie="env:KEY_3")
    assert one == sent("Bearer env:KEY_1", accept="text/plain"), "the caller is the same"


@pytest.mark.parametrize("kind", ["fleet", "http", "openai", "python"])
def test_the_pace_goes_by_settings_that_targets_have(kind: str) -> None:
    named = {"url", "model", "function", "api_key_env", "headers"}
    settings = TARGETS.find(kind).settings.__struct_fields__
    told: dict[str, JsonValue] = dict.fromkeys(settings, "A")
    if "headers" in settings:
        told["headers"] = {"authorization": "env:A"}
    before = target_key(ACME, TargetSpec(kind, told))
    assert named.intersection(settings)
    for name in settings:
        changed: JsonValue = {"authorization": "env:B"} if name == "headers" else "B"
        after = target_key(ACME, TargetSpec(kind, {**told, name: changed}))
        assert (after != before) == (name in named), name


def test_a_worker_begins_with_what_others_learned_of_the_target() -> None:
    async def story(learned: Learned | None) -> int:
        limiter = Limiter(50, Still(), Random(1))
        made = 0

        async def call() -> None:
            nonlocal made
            made += 1
            await asyncio.Event().wait()

        if learned is not None:
            limiter.learn(learned)
        tasks = [asyncio.create_task(limiter.run(call)) for _ in range(50)]
        for _ in range(3):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return made

    assert asyncio.run(story(None)) == 50
    assert asyncio.run(story(Learned(60.0, 0.06, 5))) == 5


def test_a_limiter_without_a_place_lets_calls_in_once_it_gets_one() -> None:
    async def story() -> None:
        limiter = Limiter(4, SystemClock(), Random(1))
        limiter.most = 0

        async def call() -> str:
            return "made"

        waiting = asyncio.create_task(limiter.run(call))
        await asyncio.sleep(0)
        assert not waiting.done()
        limiter.most = 1
        assert await waiting == "made"

    asyncio.run(story())
