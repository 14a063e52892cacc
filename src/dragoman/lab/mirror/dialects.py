"""The few pieces of SQL that columnar databases write differently."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class ValueKind(StrEnum):
    """The type of a bound value."""

    TEXT = "text"
    NUMBER = "number"
    INTEGER = "integer"
    TEXTS = "texts"
    NUMBERS = "numbers"


class Dialect(msgspec.Struct, frozen=True):
    """How a database writes what differs. Fields with braces are patterns for `str.format`."""

    name: str
    parameter: dict[ValueKind, str]
    """`number` is the place of the value, from 1."""
    is_in: str
    """`value` in the bound `list`; missing stays missing."""
    contains: str
    matches: str
    count_if: str
    """In how many rows a `condition` holds; quicker than counting the values of a CASE."""
    list_of: str
    """Every `value` that is not missing."""
    few_of: str
    """At most so many (`most`) of every `value` of the rows `where`; two have the same order."""
    in_order: str
    """Every `value` that is not missing, the smallest first."""
    number_of: str
    """A `value` with a fraction, also where it has none."""
    text_of: str
    whole: str
    """The whole part of a `value` from 0 to some thousands."""
    no_number: str
    no_text: str
    turns: str
    """The turns, of each its latest row."""


DUCKDB = Dialect(
    name="duckdb",
    parameter={
        ValueKind.TEXT: "${number}::VARCHAR",
        ValueKind.NUMBER: "${number}::DOUBLE",
        ValueKind.INTEGER: "${number}::BIGINT",
        ValueKind.TEXTS: "${number}::VARCHAR[]",
        ValueKind.NUMBERS: "${number}::DOUBLE[]",
    },
    is_in="({value} IN (SELECT unnest({list})))",
    contains="contains({value}, {part})",
    matches="regexp_matches({value}, {pattern})",
    count_if="count_if({condition})",
    list_of="list({value})",
    few_of="(list({value}) FILTER (WHERE {where}))[1:{most}]",
    in_order="list_sort(list({value}) FILTER (WHERE {value} IS NOT NULL))",
    number_of="CAST({value} AS DOUBLE)",
    text_of="CAST({value} AS VARCHAR)",
    whole="CAST(floor({value}) AS SMALLINT)",
    no_number="CAST(NULL AS DOUBLE)",
    no_text="CAST(NULL AS VARCHAR)",
    turns="lab_turn",
)

CLICKHOUSE = Dialect(
    name="clickhouse",
    parameter={
        ValueKind.TEXT: "{{p{number}:String}}",
        ValueKind.NUMBER: "{{p{number}:Float64}}",
        ValueKind.INTEGER: "{{p{number}:Int64}}",
        ValueKind.TEXTS: "{{p{number}:Array(String)}}",
        ValueKind.NUMBERS: "{{p{number}:Array(Float64)}}",
    },
    # Its IN takes a missing value for one that is not in the list.
    is_in="if(isNull({value}), NULL, has({list}, assumeNotNull({value})))",
    contains="(position({value}, {part}) > 0)",
    # As in DuckDB, a dot does not match the end of a line.
    matches="(match({value}, concat('(?-s)', {pattern})) = 1)",
    # Of no rows it says 0, and of a condition that is missing nothing is known.
    count_if="countIf(coalesce({condition}, 0))",
    list_of="groupArray({value})",
    few_of="groupArray({most})({value}) FILTER (WHERE {where})",
    in_order="arraySort(groupArray({value}))",
    number_of="toFloat64({value})",
    text_of="toString({value})",
    whole="floor({value})",
    no_number="CAST(NULL AS Nullable(Float64))",
    no_text="CAST(NULL AS Nullable(String))",
    turns="(SELECT * FROM lab_turn FINAL) AS turns",
)
