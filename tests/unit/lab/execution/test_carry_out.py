"""One item: through the target, the evaluators and whatever goes wrong on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.lab.execution.scene import (
    MemoryJournal,
    ScriptedEvaluator,
    ScriptedTarget,
    bench,
    item,
    play,
    said,
)

from dragoman.lab.evaluators import CompositeEvaluator, FunctionProcessPool, Score
from dragoman.lab.evaluators import composite as composites
from dragoman.lab.failures import CalledTooOften, EvaluatorFailure, Failure, Revoked, TargetError
from dragoman.lab.model import Turn
from dragoman.lab.plugins import Context
from dragoman.lab.states import ItemStatus
from dragoman.lab.targets import Output, PastTurn
from dragoman.lab.worker.execution import Reusable, carry_out
from dragoman.lab.worker.execution.limiter import PATIENCE_SECONDS
from dragoman.testing import run_virtual

BROKEN = TargetError("the model is asleep")
HOPELESS = TargetError("no such model", retryable=False)


def test_an_item_goes_through_the_target_and_every_evaluator() -> None:
    good, better = ScriptedEvaluator("good"), ScriptedEvaluator("better")
    played = play(item("a"), ScriptedTarget(), [good, better])
    assert played.outcome.status is ItemStatus.SUCCESS
    (turn,) = played.outcome.turns
    assert turn.output == said("a")
    assert turn.scores == {"good": Score(1.0), "better": Score(1.0)}
    kinds = [entry[0] for entry in played.journal.entries]
    assert kinds == ["target", "evaluator", "evaluator", "try"]
    assert played.journal.ended


def test_an_item_may_have_no_evaluators() -> None:
    assert play(item("a"), ScriptedTarget()).outcome.status is ItemStatus.SUCCESS


def test_columns_are_also_known_by_the_names_that_the_experiment_uses() -> None:
    class Asked(ScriptedTarget):
        async def call(self, turn: Turn, history: Sequence[PastTurn]) -> Output:
            return said(f"{turn['source']} {turn['text']}")

    played = play(item("a"), Asked(), mapping={"source": "text", "gone": "nowhere"})
    assert played.outcome.turns[0].output == said("a a")


# --- conversations ----------------------------------------------------------------------------


def test_history_reaches_the_target() -> None:
    target = ScriptedTarget(b=[said("B!")])
    played = play(item("a", "b", "c"), target)
    assert target.calls == ["a", "b", "c"]
    assert target.histories == [[], ["a"], ["a", "B!"]]
    assert played.outcome.status is ItemStatus.SUCCESS


def test_a_failed_turn_ends_the_later_ones_with_a_reason() -> None:
    target = ScriptedTarget(b=[HOPELESS])
    good = ScriptedEvaluator()
    played = play(item("a", "b", "c", "d"), target, [good])
    assert target.calls == ["a", "b"]
    assert good.calls == ["a"]
    statuses = [turn.status for turn in played.outcome.turns]
    assert statuses == [ItemStatus.SUCCESS, ItemStatus.FAIL, ItemStatus.FAIL, ItemStatus.FAIL]
    errors = [turn.error for turn in played.outcome.turns[2:]]
    assert {error.code for error in errors if error} == {"TARGET_ERROR"}
    assert {error.message for error in errors if error} == {
        "Not called, because turn 2 failed: no such model"
    }
    assert played.outcome.status is ItemStatus.FAIL
    assert played.outcome.error == Failure("TARGET_ERROR", "no such model")


def test_an_evaluator_that_fails_does_not_end_the_conversation() -> None:
    target = ScriptedTarget()
    judge = ScriptedEvaluator(a=[EvaluatorFailure("no answer", retryable=False)])
    played = play(item("a", "b"), target, [judge])
    assert target.calls == ["a", "b"]
    assert [turn.status for turn in played.outcome.turns] == [ItemStatus.FAIL, ItemStatus.SUCCESS]
    assert played.outcome.error == Failure(
        "EVALUATOR_ERROR", "The evaluator 'good' failed: no answer"
    )


# --- tries ------------------------------------------------------------------------------------


def test_a_target_is_tried_again_and_what_went_well_is_not() -> None:
    target = ScriptedTarget(b=[BROKEN, BROKEN])
    good = ScriptedEvaluator()
    played = play(item("a", "b"), target, [good])
    assert target.calls == ["a", "b", "b", "b"]
    assert good.calls == ["a", "b"]
    assert [outcome.status for outcome in played.journal.tries] == ["fail", "fail", "success"]
    assert [entry[1:] for entry in played.journal.entries if entry[0] == "try"] == [
        (1, False),
        (2, False),
        (3, True),
    ]


def test_only_the_evaluator_that_failed_is_tried_again() -> None:
    target, good = ScriptedTarget(), ScriptedEvaluator("good")
    shaky = ScriptedEvaluator("shaky", a=[EvaluatorFailure("malformed answer")])
    played = play(item("a"), target, [good, shaky])
    assert (target.calls, good.calls, shaky.calls) == (["a"], ["a"], ["a", "a"])
    assert played.outcome.status is ItemStatus.SUCCESS


def test_after_the_last_try_the_item_fails() -> None:
    target = ScriptedTarget(a=[BROKEN] * 9)
    played = play(item("a"), target, retries=2)
    assert len(target.calls) == 3
    assert played.outcome.try_no == 3
    assert played.outcome.error == Failure("TARGET_ERROR", "the model is asleep", retryable=True)


def test_what_cannot_help_is_not_tried_again() -> None:
    target = ScriptedTarget(a=[HOPELESS])
    assert play(item("a"), target, retries=5).outcome.try_no == 1


@pytest.mark.parametrize(
    ("usage", "reported"),
    [
        ({"tokens": 10**30}, "1e30 tokens"),
        ({"tokens": 10**5000}, "1e5000 tokens"),
        ({"tokens": -5}, "-5 tokens"),
        ({"tokens": 2.5}, "2.5 tokens"),
        ({"cost": float("nan")}, "a cost of nan"),
        ({"cost": float("inf")}, "a cost of inf"),
        ({"cost": 10**400}, "a cost of 1e400"),
        ({"cost": "a lot"}, "a cost of 'a lot'"),
    ],
)
def test_a_target_that_reports_nonsense_about_its_use_fails_and_is_quoted(
    usage: dict[str, Any], reported: str
) -> None:
    target = ScriptedTarget(a=[Output({"output": "a"}, **usage)])
    outcome = play(item("a"), target).outcome
    assert outcome.error is not None
    assert outcome.error.code == "TARGET_ERROR"
    assert reported in outcome.error.message
    assert target.calls == ["a"], "it is not paid for again"


def test_a_call_that_times_out_by_itself_before_it_waits_is_no_timeout_of_the_item() -> None:
    target = ScriptedTarget(a=[TimeoutError("my own")] * 3)
    error = play(item("a"), target, item_timeout_seconds=5).outcome.error
    assert error is not None
    assert (error.code, "my own" in error.message) == ("TARGET_ERROR", True)


def test_an_item_taken_over_goes_on_with_the_tries_it_has_left() -> None:
    target = ScriptedTarget(a=[BROKEN] * 9)
    played = play(item("a"), target, retries=2, past=Reusable(first_try=3))
    assert len(target.calls) == 1
    assert played.outcome.try_no == 3


def test_tries_are_further_and_further_apart_and_never_in_step() -> None:
    waits = {play(item("a"), ScriptedTarget(a=[BROKEN] * 9), seed=s).seconds for s in range(20)}
    assert len(waits) == 20
    assert max(waits) < 0.5 + 1.0 + 0.1


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (float("nan"), "a is nan"),
        ([10**5000], r"a[0] is 1e5000, a whole number of too many digits"),
        (object(), "a is a object"),
    ],
)
def test_what_another_packages_target_returns_has_to_be_json(value: Any, says: str) -> None:
    target = ScriptedTarget(a=[Output({"output": "fine", "a": value})])
    error = play(item("a"), target).outcome.error
    assert error is not None
    assert error.code == "TARGET_ERROR"
    assert says in error.message
    assert target.calls == ["a"], "another try would return the same"


def test_what_another_package_raises_is_a_failure_of_its_kind() -> None:
    target = ScriptedTarget(a=[RuntimeError("boom")] * 3)
    judge = ScriptedEvaluator(b=[KeyError("x")] * 3)
    failed = play(item("a"), target).outcome.error
    assert failed == Failure("TARGET_ERROR", "RuntimeError: boom", retryable=True)
    misjudged = play(item("b"), ScriptedTarget(), [judge]).outcome.error
    assert misjudged == Failure(
        "EVALUATOR_ERROR", "The evaluator 'good' failed: KeyError: 'x'", retryable=True
    )


# --- reuse ------------------------------------------------------------------------------------


def test_what_went_well_in_an_earlier_run_is_used_again() -> None:
    target, good, new = ScriptedTarget(), ScriptedEvaluator("good"), ScriptedEvaluator("new")
    past = Reusable({0: said("old a")}, {0: {"good": Score(0.5)}})
    played = play(item("a", "b"), target, [good, new], past=past)
    assert target.calls == ["b"]
    assert target.histories == [["old a"]]
    assert (good.calls, new.calls) == (["b"], ["old a", "b"])
    assert played.outcome.turns[0].scores == {"good": Score(0.5), "new": Score(1.0)}


def test_a_score_without_its_output_is_not_used() -> None:
    good = ScriptedEvaluator()
    past = Reusable({}, {0: {"good": Score(0.5)}})
    play(item("a"), ScriptedTarget(), [good], past=past)
    assert good.calls == ["a"]


# --- time -------------------------------------------------------------------------------------


def test_an_item_that_takes_too_long_fails_with_its_own_code() -> None:
    target = ScriptedTarget(a=[100.0])
    played = play(item("a", "b"), target, item_timeout_seconds=5)
    assert played.seconds == pytest.approx(5, abs=0.1)
    assert [turn.error.code for turn in played.outcome.turns if turn.error] == ["ITEM_TIMEOUT"] * 2
    assert played.outcome.try_no == 1


def test_the_time_is_for_the_whole_item() -> None:
    target = ScriptedTarget(a=[3.0], b=[3.0])
    played = play(item("a", "b"), target, item_timeout_seconds=5)
    assert [turn.status for turn in played.outcome.turns] == ["success", "fail"]


def test_evaluators_side_by_side_use_the_time_once() -> None:
    judges = [ScriptedEvaluator(name, a=[3.0]) for name in ("one", "two", "three")]
    played = play(item("a"), ScriptedTarget(), judges, item_timeout_seconds=4)
    assert played.outcome.status is ItemStatus.SUCCESS


def test_a_slow_evaluator_times_out_alone() -> None:
    judges = [ScriptedEvaluator("slow", a=[30.0]), ScriptedEvaluator("fast")]
    played = play(item("a"), ScriptedTarget(), judges, item_timeout_seconds=4)
    slow, fast = played.outcome.turns[0].scores.values()
    assert isinstance(slow, Failure)
    assert slow.code == "ITEM_TIMEOUT"
    assert fast == Score(1.0)


# --- rate limits ------------------------------------------------------------------------------


def test_a_rate_limit_is_waited_out_and_costs_neither_a_try_nor_the_items_time() -> None:
    refusals = [CalledTooOften(retry_after_seconds=20)] * 5
    target = ScriptedTarget(a=refusals)
    judge = ScriptedEvaluator(a=[CalledTooOften(retry_after_seconds=7)])
    played = play(item("a"), target, [judge], retries=0, item_timeout_seconds=5)
    assert played.outcome.status is ItemStatus.SUCCESS
    assert played.outcome.try_no == 1
    assert played.seconds == pytest.approx(107, abs=1)


def test_a_rate_limit_without_an_end_is_given_up() -> None:
    target = ScriptedTarget(a=[CalledTooOften(retry_after_seconds=86_400)])
    played = play(item("a"), target)
    assert played.outcome.error is not None
    assert played.outcome.error.code == "RATE_LIMITED"
    assert played.seconds < 1

    endless = ScriptedTarget(a=[CalledTooOften()] * 10_000)
    played = play(item("a"), endless)
    assert played.outcome.error is not None
    assert played.outcome.error.code == "RATE_LIMITED"
    assert played.seconds <= PATIENCE_SECONDS


# --- being stopped ----------------------------------------------------------------------------


def test_a_cancelled_item_stops_at_once_and_writes_nothing_more() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        target = ScriptedTarget(b=[1e6])
        work = asyncio.create_task(
            carry_out(item("a", "b"), Reusable(), journal, bench(target, [ScriptedEvaluator()]))
        )
        await asyncio.sleep(10)
        written = len(journal.entries)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert asyncio.get_running_loop().time() == 10
        await asyncio.sleep(10)
        assert len(journal.entries) == written == 2

    run_virtual(main, seed=1)


def test_a_lost_lease_stops_the_item_and_its_other_evaluators() -> None:
    class Lost(MemoryJournal):
        async def evaluator_done(self, turn_no: int, name: str, result: object) -> None:
            raise Revoked

    async def main() -> None:
        slow = ScriptedEvaluator("slow", a=[1e6])
        judges = [ScriptedEvaluator("fast"), slow]
        with pytest.raises(Revoked):
            await carry_out(item("a"), Reusable(), Lost(), bench(ScriptedTarget(), judges))
        assert asyncio.get_running_loop().time() < 1

    run_virtual(main, seed=1)


def test_evaluators_are_called_as_many_at_once_as_allowed() -> None:
    running = most = 0

    class Counting(ScriptedEvaluator):
        async def score(self, turn: Turn, output: Output) -> Score:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(1)
            running -= 1
            return Score(1.0)

    async def main() -> None:
        shared = bench(ScriptedTarget(), [Counting()], evaluator_concurrency=3, concurrency=20)
        await asyncio.gather(
            *(carry_out(item("a"), Reusable(), MemoryJournal(), shared) for _ in range(20))
        )

    run_virtual(main, seed=1)
    assert most == 3


# --- composites -------------------------------------------------------------------------------


def composite(*names: str) -> CompositeEvaluator:
    return CompositeEvaluator(
        "all",
        composites.CompositeSettings(weights=dict.fromkeys(names, 1.0)),
        Context(),
        FunctionProcessPool(1),
    )


def test_a_composite_is_computed_from_the_others_wherever_it_stands() -> None:
    others = [ScriptedEvaluator("a"), ScriptedEvaluator("b")]
    played = play(item("x"), ScriptedTarget(), [composite("a", "b"), *others])
    (turn,) = played.outcome.turns
    assert turn.scores == {"all": Score(1.0), "a": Score(1.0), "b": Score(1.0)}
    assert list(turn.scores) == ["all", "a", "b"]
    names = [entry[2] for entry in played.journal.entries if entry[0] == "evaluator"]
    assert names[-1] == "all"


def test_a_composite_of_a_failed_score_fails_and_is_mended_with_it() -> None:
    flaky = ScriptedEvaluator("a", x=[EvaluatorFailure("not now")])
    played = play(item("x"), ScriptedTarget(), [flaky, composite("a")])
    first, second = played.journal.tries
    failed = first.turns[0].scores["all"]
    assert isinstance(failed, Failure)
    assert (failed.code, failed.message) == ("EVALUATOR_ERROR", "The score 'a' failed: not now")
    assert second.turns[0].scores == {"a": Score(1.0), "all": Score(1.0)}


def test_a_composite_reuses_scores_of_an_earlier_worker() -> None:
    past = Reusable({0: said("x")}, {0: {"a": Score(0.5)}})
    judge = ScriptedEvaluator("a")
    played = play(item("x"), ScriptedTarget(), [judge, composite("a")], past=past)
    assert played.outcome.turns[0].scores["all"] == Score(0.5)
    assert judge.calls == []
