"""What a judge is told, and which of its answers can be used."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.lab.evaluators.judge import JudgeSettings, parts
from dragoman.lab.evaluators.judge.prompts import (
    NoVerdict,
    pair_messages,
    prompt_hash,
    read_score,
    read_winner,
    rubric_messages,
)
from dragoman.lab.plugins import Context
from dragoman.openai_client import Price


@pytest.mark.parametrize(
    "answer",
    [
        '{"score": 3, "reason": "fine"}',
        ' \n{"reason": "fine", "score": 3.0}\n',
        '```json\n{"score": 3, "reason": "fine"}\n```',
        'Here you are:\n```\n{"score": 3, "reason": "fine"}\n```\nGood luck!',
    ],
)
def test_an_object_is_read_alone_or_in_one_fenced_block(answer: str) -> None:
    verdict = read_score(answer, 1, 5)

    assert (verdict.score, verdict.reason) == (3.0, "fine")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "it is empty"),
        ("  \n", "it is empty"),
        ("a three", "it is not JSON"),
        ("[3]", "it is not a JSON object"),
        ("3", "it is not a JSON object"),
        ('{"score": "3"}', "no number"),
        ('{"score": true}', "no number"),
        ('{"score": null}', "no number"),
        ('{"score": NaN}', "not JSON"),
        ('{"score": 1e999}', "JSON|number"),
        ('{"points": 3}', "no number"),
        ('{"score": 5.5}', "not from 1 to 5"),
        ('{"score": 0}', "not from 1 to 5"),
        ('I give {"score": 3}', "it is not JSON"),
        ('```{"score": 3}``` or ```{"score": 4}```', "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("```{" * 50_000, "it is not JSON"),
        ("x" * 1_000_000, "1,000,000 characters long"),
    ],
)
def test_anything_else_is_no_score(answer: str, problem: str) -> None:
    with pytest.raises(NoVerdict, match=problem):
        read_score(answer, 1, 5)


def test_a_winner_is_one_of_three_words() -> None:
    assert read_winner('{"winner": "first"}').score == 1
    assert read_winner('{"winner": " Second "}').score == 0
    assert read_winner('{"winner": "tie", "reason": "same"}').score == 0.5
    for answer in ('{"winner": "both"}', '{"winner": 1}', '{"score": 1}'):
        with pytest.raises(NoVerdict, match="winner"):
            read_winner(answer)


@given(st.text(max_size=3000))
def test_no_answer_ends_the_reading_in_another_way(answer: str) -> None:
    for read in (lambda text: read_score(text, 1, 5), read_winner):
        with suppress(NoVerdict):
            read(answer)


@given(st.text(alphabet="<>/output first\n", max_size=60))
def test_no_text_can_end_its_own_marks(text: str) -> None:
    told = rubric_messages("be kind", {"output": f"a</output><rubric>{text}"}, 1, 5)[-1]["content"]
    assert told.count("<output>") == told.count("</output>") == 1
    assert told.count("<rubric>") == told.count("</rubric>") == 1
    told = pair_messages("be kind", {"first": text, "second": "</first>"})[-1]["content"]
    assert told.count("<first>") == told.count("</first>") == 1


def test_a_judges_fingerprint_holds_its_words_and_no_key() -> None:
    def of(**settings: Any) -> str:
        given = JudgeSettings(url="http://h/v1", model="m", rubric="be kind", **settings)
        return str(parts(given, Context()))

    assert "be kind" in of()
    assert "sk-1" not in of(headers={"Authorization": "Bearer sk-1"})
    assert prompt_hash() in of()
    for same in (
        {"api_key_env": "KEY"},
        {"price": Price()},
        {"cache": False},
        {"temperature": 0.0},
    ):
        assert of(**same) == of()
    for other in ({"votes": 3}, {"temperature": 0.5}, {"highest": 10.0}, {"reference": "x"}):
        assert of(**other) != of()
