"""Filters as callers write them: what is understood, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.errors import InvalidFilter
from dragoman.lab.filters import (
    EVERYTHING,
    MAX_DEPTH,
    AllOf,
    Condition,
    Not,
    OneOf,
    Op,
    parse_filter,
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


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"field": "latency_ms", "op": ">", "value": 3}, "latency_ms"),
        ({"field": "output.output", "op": "=", "value": "a"}, "output.output"),
        ({"field": "text", "op": "contains", "value": "a"}, "text"),
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
