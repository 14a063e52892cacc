"""Scores that libraries compute, through the evaluators and their processes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.lab.evaluators.scene import HERE, judge

from dragoman.errors import ExtraMissing, InvalidMessage
from dragoman.lab.evaluators import (
    EVALUATORS,
    FunctionProcessPool,
    OpenedEvaluator,
    Score,
    check_evaluator,
    open_evaluator,
)
from dragoman.lab.evaluators.measured import measured
from dragoman.lab.failures import EvaluatorFailure
from dragoman.lab.model import EvaluatorSpec
from dragoman.lab.plugins import Context
from dragoman.lab.targets import Output

KINDS = ("bleu", "chrf", "ter", "wer", "cer")


def compared(kind: str, reference: Any, given: Any, /, **settings: Any) -> Score:
    return judge(kind, {"reference": reference}, given, reference="reference", **settings)


def test_each_kind_scores_an_output() -> None:
    reference, output = "the cat sat on the mat", "the cat sat on a mat"
    assert compared("wer", reference, output) == Score(
        1 / 6, None, "1 wrong, 0 missing, 0 too many of 6 words", (5, 1, 0, 0)
    )
    assert compared("cer", reference, output).statistics == (19, 1, 2, 0)
    assert compared("bleu", reference, output).score == pytest.approx(53.7285)
    assert compared("chrf", reference, output).score == pytest.approx(65.97966)
    edits = compared("ter", reference, output)
    assert edits.score == pytest.approx(100 / 6)
    assert edits.statistics == (1, 6.0)


def test_a_threshold_labels_scores_by_which_end_is_good() -> None:
    assert compared("chrf", "abc", "abc", threshold=90).label == "pass"
    assert compared("wer", "a b", "a c", threshold=0.4).label == "fail"
    assert compared("wer", "a b", "a b", threshold=0.0).label == "pass"


def test_the_language_decides_what_is_counted_and_settings_decide_more() -> None:
    chinese = ("我喜欢 猫", "我喜欢狗")
    assert compared("wer", *chinese, language="zh").score == pytest.approx(1 / 4)
    assert compared("wer", *chinese, language="zh_Hans_CN").score == pytest.approx(1 / 4)
    assert compared("wer", *chinese, language="zh", unit="word").score == 1
    assert compared("wer", *chinese).score == 1
    assert compared("cer", "ฉัน รัก", "ฉันรัก", language="th").score == 0
    assert compared("cer", "ฉัน รัก", "ฉันรัก", language="th", ignore_space=False).score > 0  # type: ignore[operator]
    assert compared("bleu", *chinese, language="ja", tokenizer="none").statistics == (
        *(1, 2, 0, 0, 0, 0, 1, 0, 0, 0),
    )


def test_two_spellings_of_a_character_are_one_in_one_unicode_form() -> None:
    composed, apart = "caf\u00e9", "cafe\u0301"
    assert compared("cer", composed, apart).score == pytest.approx(2 / 4)
    assert compared("cer", composed, apart, unicode_form="NFC").score == 0


def test_several_references_are_a_list() -> None:
    assert compared("chrf", ["dog", "cat"], "cat").score == 100
    with pytest.raises(EvaluatorFailure, match="there are 2 references") as failed:
        compared("wer", ["dog", "cat"], "cat")
    assert not failed.value.retryable
    with pytest.raises(EvaluatorFailure, match="at most 100"):
        compared("chrf", ["a"] * 101, "cat")


# --- what must not disturb ------------------------------------------------------------------------


HOSTILE: dict[str, tuple[Any, Any, str]] = {
    "an empty reference": ("", "a", "the reference is empty"),
    "a reference of spaces": (" \u3000\n", "a", "the reference is empty"),
    "one empty reference of two": (["a", ""], "a", "the reference is empty"),
    "half a character in the output": ("a", "a\ud800", "output holds half a character"),
    "half a character in the reference": ("\udfff", "a", "reference holds half a character"),
    "ten megabytes of output": ("a b", "a " * 5_000_000, "at most|up to 200,000"),
    "ten megabytes of reference": ("a " * 5_000_000, "a", "up to 200,000"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_texts_are_errors_of_their_item_and_disturb_no_other(kind: str) -> None:
    async def main() -> None:
        processes = FunctionProcessPool(1)
        spec = EvaluatorSpec(kind, kind, settings={"reference": "reference"})
        evaluator = open_evaluator(spec, Context(), processes)
        where = f"{HERE}:process_id"
        try:
            before = await processes.call(where, {})
            for what, (reference, output, says) in HOSTILE.items():
                if kind in ("wer", "cer") and isinstance(reference, list):
                    continue
                with pytest.raises(EvaluatorFailure, match=says) as failed:
                    await evaluator.score({"reference": reference}, Output({"output": output}))
                assert not failed.value.retryable, what
                assert len(failed.value.message) < 500, what
            fine = await evaluator.score({"reference": "a b c d"}, Output({"output": ""}))
            assert fine.score == {"ter": 100, "wer": 1, "cer": 1}.get(kind, 0), "an empty output"
            assert await processes.call(where, {}) == before
        finally:
            await processes.close()

    asyncio.run(main())


STRANGE = [
    *("\0", "\x1b[31m", "a\u202eb", "\U0001f469\u200d\U0001f467" * 50, "\ufdfd" * 100, "\ud83d"),
    *(0, -1.5, True, {"a": []}, []),
]


@pytest.mark.parametrize("kind", [*KINDS, "exact", "contains", "length_ratio", "json_match"])
def test_strange_values_have_a_score_or_an_error_that_no_other_try_mends(kind: str) -> None:
    async def said(
        evaluator: OpenedEvaluator, reference: Any, output: Any
    ) -> Score | EvaluatorFailure:
        try:
            return await evaluator.score({"reference": reference}, Output({"output": output}))
        except EvaluatorFailure as error:
            return error

    async def main() -> None:
        processes = FunctionProcessPool(1)
        spec = EvaluatorSpec(kind, kind, settings={"reference": "reference"})
        evaluator = open_evaluator(spec, Context(), processes)
        try:
            for value in STRANGE:
                for pair in ((value, "a b"), ("a b", value)):
                    found = await said(evaluator, *pair)
                    assert isinstance(found, Score) or not found.retryable, pair
        finally:
            await processes.close()

    asyncio.run(main())


def test_only_punctuation_is_nothing_to_compare_with() -> None:
    with pytest.raises(EvaluatorFailure, match="no words left"):
        compared("wer", "?!", "a", ignore_punctuation=True)


def test_a_computation_that_takes_too_long_says_so() -> None:
    words = " ".join(f"w{number}" for number in range(4_000))
    backwards = " ".join(reversed(words.split()))
    options = {
        "tokenizer": "none",
        "ignore_case": True,
        "ignore_punctuation": False,
        "normalized": False,
        "asian_support": False,
    }

    async def main() -> None:
        processes = FunctionProcessPool(1)
        try:
            asked = measured(processes, "ter", backwards, [words], options, seconds=0.3)
            with pytest.raises(EvaluatorFailure, match=r"more than 0.3 s of the processor's time"):
                await asked
            assert (await measured(processes, "ter", "a", ["a"], options)).score == 0
        finally:
            await processes.close()

    asyncio.run(main())


def test_a_limit_that_ends_a_finalizer_ends_the_computation_the_next_time() -> None:
    assert judge("python", {}, "x", function=f"{HERE}:unending", cpu_bound=True).label == "ended"


def test_arguments_that_cannot_be_sent_cost_no_process() -> None:
    async def main() -> None:
        processes = FunctionProcessPool(1)
        where = f"{HERE}:process_id"
        try:
            before = await processes.call(where, {})
            with pytest.raises(EvaluatorFailure, match="cannot be sent") as failed:
                await processes.call(
                    "tests.unit.lab.evaluators.functions:talk", {"output": "\ud800"}
                )
            assert not failed.value.retryable
            assert await processes.call(where, {}) == before
        finally:
            await processes.close()

    asyncio.run(main())


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "settings", "says"),
    [
        ("bleu", {"tokenizer": "spm"}, "evaluator.tokenizer"),
        ("bleu", {"max_order": 0}, "from 1 to 10"),
        ("bleu", {"smooth_value": -1}, "from 0 to 100"),
        ("chrf", {"char_order": 99}, "from 1 to 10"),
        ("wer", {"unit": "letter"}, "evaluator.unit"),
        ("wer", {"tokenizer": "zh"}, "evaluator.tokenizer"),
        ("ter", {"unicode_form": "NFX"}, "evaluator.unicode_form"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    kind: str, settings: dict[str, Any], says: str
) -> None:
    spec = EvaluatorSpec(kind, kind, settings={"reference": "reference", **settings})
    with pytest.raises(InvalidMessage, match=says):
        check_evaluator(spec, ("reference",), Context())


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.extras.find_spec", lambda name: None)
    spec = EvaluatorSpec("chrf", "chrf", settings={"reference": "reference"})
    with pytest.raises(ExtraMissing, match=r"`chrf` needs .* sacrebleu.*dragoman\[lab\]"):
        check_evaluator(spec, ("reference",), Context())
    exact = EvaluatorSpec("exact", "exact", settings={"reference": "reference"})
    check_evaluator(exact, ("reference",), Context())


def test_every_kind_says_whether_it_has_a_corpus_score() -> None:
    having = {name for name in EVALUATORS if EVALUATORS[name].has_corpus}
    assert having == {*KINDS, "length_ratio", "terms"}
