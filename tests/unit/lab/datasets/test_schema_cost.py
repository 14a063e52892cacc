"""Schemas whose checks may multiply with every level are refused before a row is read."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from dragoman.errors import DatasetInvalid
from dragoman.lab.datasets import RowSchema
from dragoman.lab.datasets.schema_cost import MAX_CHECKS_A_VALUE, MAX_STEPS, TooCostly, check_cost


def chain(word: str, length: int, last: dict[str, Any], branches: int = 2) -> dict[str, Any]:
    """Definitions that each refer so many times to the next one."""
    definitions: dict[str, Any] = {
        f"d{number}": {word: [{"$ref": f"#/$defs/d{number + 1}"}] * branches}
        for number in range(length)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{length}": last}}


def tower(floors: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {"a": {"type": "integer"}}}
    for _ in range(floors):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return schema


TREE_BOTH_WAYS: dict[str, Any] = {
    "$ref": "#/$defs/tree",
    "$defs": {
        "tree": {
            "anyOf": [
                {"properties": {"x": {"$ref": "#/$defs/tree"}}, "required": ["a"]},
                {"properties": {"x": {"$ref": "#/$defs/tree"}}, "required": ["b"]},
            ]
        }
    },
}

COSTLY: dict[str, dict[str, Any]] = {
    "any of twice the next": chain("anyOf", 30, {"type": "string"}),
    "one of twice the next": chain("oneOf", 30, {"type": "string"}),
    "all of twice the next": chain("allOf", 30, {"type": "object"}),
    "three of the next": chain("anyOf", 8, {"type": "string"}, branches=3),
    "unevaluated in unevaluated": tower(14),
    "itself": {"$ref": "#"},
    "in a circle": {"anyOf": [{"not": {"$ref": "#"}}, {"type": "object"}]},
    "twice as many a level": TREE_BOTH_WAYS,
    "twice as many by different words": {
        "additionalProperties": {"$ref": "#"},
        "patternProperties": {".": {"$ref": "#"}},
    },
    "twice as many elements": {"items": {"$ref": "#"}, "contains": {"$ref": "#"}},
    "by an anchor": {
        "$defs": {"a": {"$anchor": "again", "allOf": [{"$ref": "#again"}]}},
        "$ref": "#again",
    },
    "by what is found at run time": {"$dynamicAnchor": "a", "items": {"$dynamicRef": "#a"}},
    "by another base": {"$defs": {"a": {"$id": "a", "$ref": "#"}}, "$ref": "#/$defs/a"},
    "too large": {"properties": {f"c{n}": {"type": "string"} for n in range(MAX_STEPS + 1)}},
    "the schema of schemas": {"$ref": "https://json-schema.org/draft/2020-12/schema"},
}


@pytest.mark.parametrize("name", COSTLY)
def test_a_schema_that_may_take_checks_without_end_is_refused(name: str) -> None:
    with pytest.raises(DatasetInvalid) as refused:
        RowSchema(COSTLY[name])
    assert refused.value.details == {"field": "schema"}
    assert "The schema cannot be used: " in refused.value.message


BOUNDED: dict[str, dict[str, Any]] = {
    "a list of lists": {"items": {"$ref": "#"}},
    "a tree": {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}},
    "a tree by its own id": {
        "$id": "https://example.org/tree",
        "properties": {"kids": {"items": {"$ref": "https://example.org/tree#"}}},
    },
    "a thousand columns of one kind": {
        "properties": {f"c{n}": {"$ref": "#/$defs/kind~1of~0"} for n in range(1000)},
        "$defs": {"kind/of~": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    },
    "few levels": chain("anyOf", 7, {"type": "object"}),
    "nested, each once": chain("anyOf", 300, {"type": "object"}, branches=1),
    "by an anchor": {"$defs": {"a": {"$anchor": "kind", "type": "object"}}, "$ref": "#kind"},
    "one unevaluated": tower(1),
    "truths": {"properties": {"a": True}, "additionalProperties": False, "not": False},
    "a column called as a word of schemas": {
        "properties": {"$id": {"type": "string"}, "$ref": {"type": "string"}, "allOf": {}}
    },
    "by number": {"prefixItems": [{"type": "integer"}], "items": {"$ref": "#/prefixItems/0"}},
}


@pytest.mark.parametrize("name", BOUNDED)
def test_a_schema_that_takes_few_checks_is_used(name: str) -> None:
    jsonschema_rs.validator_for(BOUNDED[name])  # it is good
    assert list(RowSchema(BOUNDED[name]).problems({})) == []
    assert check_cost(BOUNDED[name]) <= MAX_STEPS


def test_what_it_takes_to_refuse_a_schema_does_not_grow_with_its_levels() -> None:
    for word in ("anyOf", "allOf", "oneOf"):
        for length in (20, 40, 80):
            assert steps_until_refused(chain(word, length, {})) <= 2 * MAX_CHECKS_A_VALUE


def steps_until_refused(schema: dict[str, Any]) -> int:
    with pytest.raises(TooCostly) as refused:
        check_cost(schema)
    return refused.value.steps
