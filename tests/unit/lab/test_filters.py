"""Filters as callers write them: what is understood, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.errors import InvalidFilter
from dragoman.lab.filters import (
    EVERYTHING,
    MAX_DEPTH,
    MAX_PARTS,
    MAX_VALUES,
    AllOf,
    Condition,
    Not,
    OneOf,
    Op,
    parse_filter,
    pattern_size,
)

FAILED: dict[str, Any] = {"field": "status", "op": "=", "value": "fail"}


def nested(depth: int) -> dict[str, Any]:
    """A condition so many levels down, its own included."""
    tree: dict[str, Any] = FAILED
    for _ in range(depth - 1):
        tree = {"not": tree}
    return tree


def test_no_filter_lets_everything_through() -> None:
    assert parse_filter(None) == EVERYTHING


def test_a_tree_is_read_as_it_was_written() -> None:
    tree: dict[str, Any] = {
        "or": [FAILED, {"not": {"and": [{"field": "score.a.b", "op": "<", "value": 3}]}}]
    }
    assert parse_filter(tree) == OneOf(
        (
            Condition("status", Op.EQUAL, "fail"),
            Not(AllOf((Condition("score.a.b", Op.LESS, 3.0),))),
        )
    )


def test_fifty_levels_are_deep_enough() -> None:
    parse_filter(nested(MAX_DEPTH))
    with pytest.raises(InvalidFilter, match="50"):
        parse_filter(nested(MAX_DEPTH + 1))


def test_a_filter_has_so_many_parts_and_values_and_no_more() -> None:
    parse_filter({"or": [FAILED] * (MAX_PARTS - 1)})
    with pytest.raises(InvalidFilter, match=f"{MAX_PARTS} parts"):
        parse_filter({"or": [FAILED] * MAX_PARTS})
    half: dict[str, Any] = {"field": "score.a", "op": "in", "value": [1.5] * (MAX_VALUES // 2)}
    parse_filter({"and": [half, half]})
    with pytest.raises(InvalidFilter, match="10,000 values"):
        parse_filter({"and": [half, half, {**half, "value": [1.5]}]})


def test_an_operator_without_a_value_may_say_so() -> None:
    assert parse_filter({"field": "error_code", "op": "is_null", "value": None}) == Condition(
        "error_code", Op.IS_NULL
    )


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        ({"or": [FAILED, {"not": {**FAILED, "op": "~"}}]}, "filter.or[1].not.op"),
        ({"and": [FAILED, {"field": "colour"}]}, "filter.and[1].field"),
        ({"not": {"field": "score.a", "op": "<", "value": "low"}}, "filter.not.value"),
        ({"and": 3}, "filter.and"),
        ([FAILED], "filter"),
        ("status = fail", "filter"),
    ],
)
def test_the_part_that_does_not_fit_is_named(wrong: Any, part: str) -> None:
    with pytest.raises(InvalidFilter) as refused:
        parse_filter(wrong)
    assert refused.value.details == {"field": part}
    assert f"`{part}`" in refused.value.message


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"field": "latency", "op": "<", "value": 3}, "latency"),
        ({"field": "latency_ms", "op": "contains", "value": "3"}, "contains"),
        ({"field": "latency_ms", "op": "<", "value": 10**400}, "too large"),
        ({"field": "output.", "op": "=", "value": "a"}, "output."),
        ({"field": "output.a", "op": "=", "value": [1]}, "true or false"),
        ({"field": "output.a", "op": "in", "value": [1, "a"]}, "not both"),
        ({"field": "output.a", "op": "contains", "value": 3}, "text"),
        ({"field": "text", "op": "=", "value": "a"}, "="),
        ({"field": "text", "op": "matches", "value": "a" * 1001}, "1,000"),
        ({"field": "label.a", "op": "=", "value": "\x00"}, "NUL"),
        ({"field": "label.a", "op": "=", "value": "\ud800"}, "surrogate"),
        ({"field": 3, "op": "=", "value": "a"}, "3"),
        ({"field": "status", "op": "~", "value": "a"}, "~"),
        ({"field": "status", "op": "<", "value": "a"}, "<"),
        ({"field": "status", "op": "=", "value": 3}, "text"),
        ({"field": "status", "op": "="}, "text"),
        ({"field": "score.exact", "op": "=", "value": "high"}, "a number"),
        ({"field": "score.exact", "op": "in", "value": 3}, "a list"),
        ({"field": "score.exact", "op": "in", "value": [1, "two"]}, "a list"),
        ({"field": "score.", "op": "=", "value": 3}, "score."),
        ({"field": "status", "op": "is_null", "value": 1}, "no value"),
        ({**FAILED, "colour": "red"}, "colour"),
        ({"and": {}}, "list"),
        ({"and": [3]}, "object"),
        ({"and": [], "or": []}, "and"),
        ({"xor": []}, "xor"),
        ({}, "field"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_name(wrong: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidFilter, match=word.replace(".", r"\.")):
        parse_filter(wrong)


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        ("abc", 3),
        ("a{5}", 5),
        ("(ab){10}", 20),
        ("(a{10}b){10}", 110),
        ("a{3}{4}", 12),
        ("a|b{4}", 5),
        ("[a-z{5}]{3}", 3),
        ("[]a]{7}", 7),
        (r"[[:alpha:]\]x]{9}", 9),
        (r"a\{5}", 4),
        (r"\p{Han}{10}", 500),
        ("(?:x(?P<n>ab){3}){2}", 14),
        ("a{0,1000}" * 3, 3000),
        ("(((", 0),
        (")))", 3),
        ("{5}", 3),
    ],
)
def test_a_pattern_has_as_many_parts_as_its_counts_stand_for(pattern: str, size: int) -> None:
    assert pattern_size(pattern) == size


def test_patterns_that_would_keep_a_server_busy_are_refused() -> None:
    """Nine hundred characters like these took RE2 a minute for one text of 20 kB."""
    hostile: dict[str, Any] = {"field": "text", "op": "matches", "value": "x{0,1000}" * 100}
    with pytest.raises(InvalidFilter, match="1,000 parts; these have 100,000") as refused:
        parse_filter({"not": hostile})
    assert refused.value.details == {"field": "filter.not.value"}
    one: dict[str, Any] = {"field": "text", "op": "matches", "value": "x{0,300}"}
    parse_filter({"or": [one] * 3})
    with pytest.raises(InvalidFilter, match="these have 1,200"):
        parse_filter({"or": [one] * 4})
