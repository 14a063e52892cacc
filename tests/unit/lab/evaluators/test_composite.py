"""One score out of several: which it combines, how, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.errors import InvalidMessage
from dragoman.lab.evaluators import (
    CompositeEvaluator,
    FunctionProcessPool,
    Score,
    check_evaluators,
    open_evaluator,
    resolved_evaluators,
)
from dragoman.lab.failures import EvaluatorFailure
from dragoman.lab.model import EvaluatorSpec, TargetSpec
from dragoman.lab.plugins import Context

TARGET = TargetSpec("recorded", {"output": "said"})


def exact(name: str, weight: float = 1.0) -> EvaluatorSpec:
    return EvaluatorSpec("exact", name, weight, {"reference": "reference"})


def composite(name: str = "all", **settings: Any) -> EvaluatorSpec:
    return EvaluatorSpec("composite", name, settings=settings)


def opened(spec: EvaluatorSpec) -> CompositeEvaluator:
    evaluator = open_evaluator(spec, Context(), FunctionProcessPool(1))
    assert isinstance(evaluator, CompositeEvaluator)
    return evaluator


def refusal(*evaluators: EvaluatorSpec) -> str:
    with pytest.raises(InvalidMessage) as refused:
        check_evaluators(resolved_evaluators(evaluators, TARGET), ("reference",), Context())
    return refused.value.message


def test_it_combines_the_others_by_their_weights() -> None:
    specs = resolved_evaluators([composite(), exact("a", 3.0), exact("b")], TARGET)
    check_evaluators(specs, ("reference",), Context())
    whole = opened(specs[0])
    assert set(whole.needs) == {"a", "b"}
    assert whole.combine({"a": Score(1.0), "b": Score(0.0)}) == Score(0.75)


def test_its_own_weights_choose_what_it_combines() -> None:
    specs = resolved_evaluators([exact("a", 3.0), exact("b"), composite(weights={"b": 2})], TARGET)
    assert opened(specs[2]).needs == ("b",)
    assert refusal(*specs) == (
        "'a' has the weight 3, which only a composite evaluator uses, and none combines it; "
        "add one, or leave the weight out."
    )


def test_scales_bring_scores_from_worst_to_best() -> None:
    whole = opened(
        composite(
            weights={"chrf": 1, "wer": 1}, scales={"chrf": [0, 100], "wer": [1, 0]}, threshold=0.7
        )
    )
    found = whole.combine({"chrf": Score(50.0), "wer": Score(0.1)})
    assert found.score == pytest.approx(0.7)
    assert found.label == "pass"


@pytest.mark.parametrize("given", [{}, {"a": Score(None, "good")}])
def test_there_is_no_mean_without_every_score(given: dict[str, Score]) -> None:
    with pytest.raises(
        EvaluatorFailure, match=r"'a' is (missing|a label without a number)"
    ) as failed:
        opened(composite(weights={"a": 1})).combine(given)
    assert not failed.value.retryable


@pytest.mark.parametrize(
    ("evaluators", "says"),
    [
        ([composite()], "has no scores to combine"),
        ([composite(weights={"gone": 1}), exact("a")], "combines 'gone', which is no score"),
        ([composite("x"), composite("y", weights={"x": 1}), exact("a")], "combines 'x'"),
        ([composite(weights={"a": 0}), exact("a")], "not above 0"),
        ([composite(weights={"a": float("inf")}), exact("a")], "not above 0"),
        ([composite(scales={"b": [0, 1]}), exact("a")], "names 'b', which is not combined"),
        ([composite(scales={"a": [1, 1]}), exact("a")], "worst and best have to differ"),
        ([composite(), exact("a", 0.0)], "not above 0"),
        ([composite(weights={"b": 1}), exact("a", -1.0), exact("b")], "must be above 0"),
        ([exact("a", 2.0)], "only a composite evaluator uses"),
    ],
)
def test_what_cannot_be_combined_is_refused(evaluators: list[EvaluatorSpec], says: str) -> None:
    assert says in refusal(*evaluators)


# --- the language of the target -------------------------------------------------------------------


def test_evaluators_take_the_language_of_the_target_unless_they_have_their_own() -> None:
    target = TargetSpec("fleet", {"src_lang": "en", "tgt_lang": "zh"})
    bleu = EvaluatorSpec("bleu", "bleu", settings={"reference": "r"})
    own = EvaluatorSpec("wer", "wer", settings={"reference": "r", "language": "en"})
    found = resolved_evaluators([bleu, own, exact("exact")], target)
    assert [one.settings.get("language") for one in found] == ["zh", "en", None]
    assert resolved_evaluators([bleu], TARGET) == (bleu,)
