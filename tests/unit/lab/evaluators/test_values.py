"""Evaluators that compare values without a library: numbers, JSON, lengths, time, patterns."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.lab.evaluators.scene import judge

from dragoman.errors import InvalidMessage
from dragoman.lab.evaluators import (
    FunctionProcessPool,
    Score,
    check_evaluator,
    corpus_score,
    fingerprints,
    open_evaluator,
)
from dragoman.lab.failures import EvaluatorFailure
from dragoman.lab.model import EvaluatorSpec
from dragoman.lab.plugins import Context
from dragoman.lab.targets import Output


def compared(kind: str, reference: Any, given: Any, /, **settings: Any) -> Score:
    return judge(kind, {"reference": reference}, given, reference="reference", **settings)


def refused(kind: str, /, **settings: Any) -> str:
    """Why these settings are refused."""
    spec = EvaluatorSpec(kind, kind, settings=settings)
    with pytest.raises(InvalidMessage) as error:
        check_evaluator(spec, ("reference",), Context())
    return error.value.message


# --- numeric --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "output", "settings", "score"),
    [
        (42, "42", {}, 1),
        ("42", 42.0, {}, 1),
        (42, " 42.0 \n", {}, 1),
        (1234.5, "1,234.5", {}, 1),
        (1.5, "1,5", {}, 0),
        (42, "about 42", {}, 0),
        (42, "It is 41, no: 42.", {"find": "last"}, 1),
        (41, "It is 41, no: 42.", {"find": "first"}, 1),
        (-0.5, "-.5e0", {}, 1),
        (100, 101, {"absolute": 1}, 1),
        (100, 102, {"absolute": 1}, 0),
        (100, 102, {"relative": 0.02}, 1),
        (1, True, {}, 0),
        (1, {"output": [1]}, {}, 0),
        (1, "nan", {}, 0),
        (1, "1e999", {}, 0),
        (1, "", {"find": "first"}, 0),
        (5, "٥", {"find": "first"}, 0),
    ],
)
def test_numeric_compares_numbers(
    reference: Any, output: Any, settings: dict[str, Any], score: float
) -> None:
    assert compared("numeric", reference, output, **settings).score == score


def test_numeric_tells_what_it_expected() -> None:
    assert compared("numeric", 3, "4").reason == "expected 3, got 4"
    assert compared("numeric", 3, "four").reason == 'the output has no number: "four"'


@pytest.mark.parametrize("reference", ["three", True, [1], "1e999", 10**400])
def test_a_reference_that_is_no_number_is_an_error(reference: Any) -> None:
    with pytest.raises(EvaluatorFailure, match="reference is no number") as failed:
        compared("numeric", reference, "3")
    assert not failed.value.retryable


def test_numeric_reads_a_long_text_in_no_time() -> None:
    assert compared("numeric", 1, "9" * 500_000 + "x", find="first").score == 0
    assert compared("numeric", 1, "1," * 400_000, find="last").score == 1
    with pytest.raises(EvaluatorFailure, match="up to 1,000,000"):
        compared("numeric", 1, "1 " * 600_000, find="last")


# --- json_match -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "output", "settings", "score"),
    [
        ({"a": 1, "b": [1, 2]}, '{"b": [1, 2.0], "a": 1}', {}, 1),
        ('{"a": null}', {"output": {"a": None}}, {}, 1),
        ({"a": 1}, '{"a": true}', {}, 0),
        ({"a": 1}, '{"a": 1, "b": 2}', {}, 0),
        ({"a": 1}, '{"a": 1, "b": 2}', {"allow_extra": True}, 1),
        ([1, 2], "[2, 1]", {}, 0),
        ([1.0, {"a": [3, 2]}], '[{"a": [2, 3]}, 1]', {"ignore_order": True}, 1),
        ([1, 1, 2], "[1, 2, 2]", {"ignore_order": True}, 0),
        (
            {"a": 1, "b": 2, "c": 3, "d": 4},
            '{"a": 1, "b": 2, "c": 3, "d": 5}',
            {"partial": True},
            0.75,
        ),
        ({"a": "X"}, '{"a": "x"}', {"ignore_case": True}, 1),
        ({"a": 1}, "not JSON", {}, 0),
        ({"a": 1}, '{"a": 1', {"partial": True}, 0),
        ([], "[]", {}, 1),
        ({}, "{}", {"partial": True}, 1),
    ],
)
def test_json_match_compares_values(
    reference: Any, output: Any, settings: dict[str, Any], score: float
) -> None:
    assert compared("json_match", reference, output, **settings).score == score


def test_json_match_says_where_the_values_differ() -> None:
    said = compared("json_match", {"a": [1, 2], "b": 1, "c": 1, "d": 1}, '{"a": [1, 3]}')
    assert said.reason is not None
    assert said.reason == "$.a[1] is 3, not 2; $.b is missing; $.c is missing; and 1 more"
    assert said.label == "fail"


def test_json_nested_beyond_measure_is_no_crash() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    assert compared("json_match", [], deep).score == 0
    with pytest.raises(EvaluatorFailure, match="reference is no JSON"):
        compared("json_match", deep, "[]")


def test_settings_of_json_match_that_contradict_each_other_are_refused() -> None:
    said = refused("json_match", reference="reference", ignore_order=True, partial=True)
    assert "cannot be combined" in said


# --- length_ratio, latency ------------------------------------------------------------------------


def test_the_length_ratio_counts_words_or_characters() -> None:
    said = compared("length_ratio", "one two three four", "one two")
    assert said == Score(0.5, statistics=(2.0, 4.0))
    assert compared("length_ratio", "我是学生", "我是 学", language="zh-CN").score == 0.75
    assert compared("length_ratio", "我是学生", "我是 学", language="zh", unit="word").score == 2
    labels = [
        compared("length_ratio", "a b", text, min_ratio=0.5, max_ratio=1).label
        for text in ("", "a", "a b", "a b c")
    ]
    assert labels == ["fail", "pass", "pass", "fail"]
    with pytest.raises(EvaluatorFailure, match="reference is empty"):
        compared("length_ratio", " ", "a")
    assert "no ratio lies between" in refused(
        "length_ratio", reference="reference", min_ratio=2, max_ratio=1
    )


def test_latency_is_what_the_target_took() -> None:
    async def main() -> None:
        processes = FunctionProcessPool(1)
        spec = EvaluatorSpec("latency", "latency", settings={"max_ms": 100})
        evaluator = open_evaluator(spec, Context(), processes)
        assert await evaluator.score({}, Output({"output": 1}, latency_ms=80.5)) == Score(
            80.5, "pass"
        )
        slow = await evaluator.score({}, Output({"output": 1}, latency_ms=180.5))
        assert slow.label == "fail"
        with pytest.raises(EvaluatorFailure, match="made no call"):
            await evaluator.score({}, Output({"output": 1}))

    asyncio.run(main())


# --- regex ----------------------------------------------------------------------------------------


def test_regex_looks_for_a_pattern() -> None:
    assert judge("regex", {}, "order 66", pattern=r"\d+") == Score(1.0, "pass")
    said = judge("regex", {}, "no order", pattern=r"\d+")
    assert said == Score(0.0, "fail", r"'\\d+' is not found in the output")
    assert judge("regex", {}, "order 66", pattern=r"\d+", whole=True).score == 0
    assert judge("regex", {}, "ABC", pattern="b", ignore_case=True).score == 1
    assert judge("regex", {}, "a\nb", pattern="^b$", multiline=True).score == 1
    assert judge("regex", {"p": "^c"}, "cat", reference="p").score == 1


def test_a_pattern_of_the_dataset_that_cannot_be_used_is_an_error_of_its_item() -> None:
    with pytest.raises(EvaluatorFailure, match=r"cannot be used: .*unterminated") as failed:
        judge("regex", {"p": "("}, "cat", reference="p")
    assert not failed.value.retryable


def test_patterns_are_checked_before_a_run() -> None:
    assert "cannot be used" in refused("regex", pattern="(")
    assert "cannot be used" in refused("regex", pattern="(" * 5_000 + ")" * 5_000)
    assert "at most 10,000" in refused("regex", pattern="a" * 20_000)
    assert "either a `pattern` or" in refused("regex")
    assert "either a `pattern` or" in refused("regex", pattern="a", reference="reference")
    assert "timeout_seconds" in refused("regex", pattern="a", timeout_seconds=0)


def test_a_pattern_that_backtracks_for_ever_is_ended_and_its_process_goes_on() -> None:
    async def main() -> None:
        processes = FunctionProcessPool(1)
        settings: dict[str, Any] = {"pattern": "(a+)+$", "timeout_seconds": 0.2}
        spec = EvaluatorSpec("regex", "regex", settings=settings)
        evaluator = open_evaluator(spec, Context(), processes)
        where = "tests.unit.lab.evaluators.functions:process_id"
        try:
            before = await processes.call(where, {})
            with pytest.raises(
                EvaluatorFailure, match=r"more than 0.2 s of the processor"
            ) as failed:
                await evaluator.score({}, Output({"output": "a" * 40 + "b"}))
            assert not failed.value.retryable
            assert (await evaluator.score({}, Output({"output": "aaa"}))).score == 1
            assert await processes.call(where, {}) == before, "it was not even replaced"
        finally:
            await processes.close()

    asyncio.run(main())


# --- terms ----------------------------------------------------------------------------------------

WORDS: list[Any] = [
    {"term": "gate", "translation": "puerta"},
    {"term": "fare", "translation": "tarifa"},
]


def test_terms_are_counted_where_the_reference_has_them() -> None:
    def said(reference: str, output: str, **settings: Any) -> Score:
        return compared("terms", reference, output, glossary=WORDS, **settings)

    both = said("The Gate, and the fare", "La puerta, y el precio", threshold=0.9)
    assert (both.score, both.label, both.statistics) == (0.5, "fail", (1.0, 2.0))
    assert both.reason == '"tarifa" is not in the output'
    assert said("at the gate", "en la Puerta").score == 1
    assert said("at the gate", "en las puertas").score == 0, "another word"
    none = said("a gatekeeper", "un portero")
    assert (none.score, none.label, none.statistics) == (None, None, (0.0, 0.0))
    kept = compared("terms", "Ask Dragoman", "Pregunta a Dragoman", glossary=[{"term": "dragoman"}])
    assert kept.score == 1


def test_the_corpus_score_of_terms_is_over_all_terms_together() -> None:
    spec = EvaluatorSpec("terms", "terms", settings={"reference": "r", "glossary": WORDS})
    assert corpus_score(spec, (3.0, 4.0)) == 0.75
    assert corpus_score(spec, (0.0, 0.0)) is None


def test_a_glossary_without_words_is_refused_and_part_of_the_fingerprint() -> None:
    assert "1 to 10,000" in refused("terms", reference="reference", glossary=[])
    assert "empty" in refused("terms", reference="reference", glossary=[{"term": " "}])
    specs = [
        EvaluatorSpec("terms", "terms", settings={"reference": "r", "glossary": words})
        for words in (WORDS, WORDS[:1])
    ]
    one, other = (fingerprints([spec], Context())["terms"].hash for spec in specs)
    assert one != other
