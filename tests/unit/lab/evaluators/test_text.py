"""Evaluators that compare an output with a reference."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.lab.evaluators.scene import judge

from dragoman.errors import InvalidMessage, SchemaMismatch
from dragoman.lab.evaluators import EVALUATORS, Score, check_evaluator
from dragoman.lab.failures import EvaluatorFailure
from dragoman.lab.model import EvaluatorSpec
from dragoman.lab.plugins import Context


def exact(reference: Any, given: Any, /, **settings: Any) -> float | None:
    return judge("exact", {"reference": reference}, given, reference="reference", **settings).score


def contains(reference: Any, given: Any, /, **settings: Any) -> float | None:
    turn = {"reference": reference}
    return judge("contains", turn, given, reference="reference", **settings).score


@pytest.mark.parametrize(
    ("reference", "output", "score"),
    [
        ("hello", "hello", 1),
        ("hello", "Hello", 0),
        ("hello", "hello ", 0),
        ("你好", "你好", 1),
        ("42", 42, 1),
        (42, "42", 1),
        (1, 1.0, 1),
        (1, True, 0),
        ([1, {"a": None}], [1, {"a": None}], 1),
        ([1, {"a": False}], [1, {"a": 0}], 0),
        ("", "", 1),
    ],
)
def test_exact_means_the_same(reference: Any, output: Any, score: float) -> None:
    assert exact(reference, output) == score


def test_exact_may_be_less_strict_on_request() -> None:
    assert exact("Straße", "STRASSE", ignore_case=True) == 1
    assert exact("a  b\n", " a b", ignore_space=True) == 1


def test_a_difference_is_explained_and_never_at_length() -> None:
    said = judge("exact", {"reference": "yes"}, "no" * 5_000, reference="reference")
    assert said.label == "fail"
    assert said.reason is not None
    assert said.reason.startswith('expected "yes", got "nono')
    assert len(said.reason) < 300
    assert judge("exact", {"r": "a"}, "a", reference="r") == Score(1.0, "pass")


@pytest.mark.parametrize(
    ("reference", "output", "score"),
    [
        ("ell", "hello", 1),
        ("ELL", "hello", 0),
        (["he", "lo"], "hello", 1),
        (["he", "xx"], "hello", 0),
        (4, "42", 1),
        ("b", {"output": ["a", "b"]}, 1),
    ],
)
def test_contains_looks_for_everything(reference: Any, output: Any, score: float) -> None:
    assert contains(reference, output) == score


def test_contains_may_ignore_case() -> None:
    assert contains("ELL", "hello", ignore_case=True) == 1


def test_another_column_of_the_output_may_be_judged() -> None:
    columns = {"output": "a", "other": "b"}
    assert exact("b", columns, output="other") == 1
    assert contains("b", columns, output="other") == 1


@pytest.mark.parametrize("kind", ["exact", "contains"])
def test_what_is_missing_is_an_error_and_no_zero(kind: str) -> None:
    cases: tuple[tuple[dict[str, Any], Any, dict[str, Any], str], ...] = (
        ({}, "a", {}, "turn has no `reference`; it has nothing"),
        ({"reference": None}, "a", {}, "turn has no value in `reference`"),
        ({"reference": "a"}, {"output": None}, {}, "output has no value in `output`"),
        ({"reference": "a"}, "a", {"output": "gone"}, "output has no `gone`; it has output"),
    )
    for turn, output, extra, says in cases:
        with pytest.raises(EvaluatorFailure, match=says) as failed:
            judge(kind, turn, output, reference="reference", **extra)
        assert not failed.value.retryable


def test_settings_are_checked_against_the_columns() -> None:
    spec = EvaluatorSpec("exact", "exact", settings={"reference": "gold"})
    check_evaluator(spec, ("gold",), Context())
    with pytest.raises(SchemaMismatch, match=r"`evaluator.reference` uses the column `gold`"):
        check_evaluator(spec, ("silver",), Context())
    with pytest.raises(InvalidMessage, match="known are exact, contains, regex"):
        check_evaluator(EvaluatorSpec("blue", "blue"), (), Context())
    with pytest.raises(InvalidMessage) as refused:
        check_evaluator(EvaluatorSpec("exact", "exact"), (), Context())
    assert refused.value.details == {"field": "evaluator.reference"}


@pytest.mark.parametrize("name", sorted(EVALUATORS))
def test_every_kind_tells_the_schema_of_its_settings(name: str) -> None:
    assert "properties" in next(iter(EVALUATORS[name].schema()["$defs"].values()))
