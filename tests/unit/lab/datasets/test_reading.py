"""Dataset files: what they say is read as it is, and what is wrong is named by its line."""

from __future__ import annotations

import csv
import json
import sys
import tracemalloc
from io import BytesIO, RawIOBase, StringIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DatasetInvalid
from dragoman.lab.datasets import DatasetReader, Format, RowSchema, columns_of, format_of
from dragoman.lab.datasets.csv_file import MAX_HEADER_BYTES
from dragoman.lab.datasets.lines import MAX_RECORD_BYTES


def items_of(content: bytes, file_format: Format, **options: Any) -> list[Any]:
    reader = DatasetReader(BytesIO(content), file_format, **options)
    return [item for batch in reader for item in batch]


def jsonl(content: str | bytes, **options: Any) -> list[Any]:
    return items_of(
        content if isinstance(content, bytes) else content.encode(), Format.JSONL, **options
    )


def from_csv(content: str | bytes, **options: Any) -> list[Any]:
    return items_of(
        content if isinstance(content, bytes) else content.encode(), Format.CSV, **options
    )


def problems(read: Any, content: str | bytes, **options: Any) -> list[tuple[int, str]]:
    with pytest.raises(DatasetInvalid) as refused:
        read(content, **options)
    found = refused.value.details["problems"]
    return [(problem["line"], problem["message"]) for problem in found]


# --- what is read ---------------------------------------------------------------------------


def test_a_flat_record_is_an_item_of_one_turn() -> None:
    assert jsonl('{"source": "hello", "n": 1}\n') == [({"source": "hello", "n": 1},)]


def test_a_list_of_turns_is_a_conversation() -> None:
    assert jsonl('{"turns": [{"q": "a"}, {"q": "b"}]}') == [({"q": "a"}, {"q": "b"})]


def test_marks_line_ends_and_empty_lines_do_not_matter() -> None:
    content = b'\xef\xbb\xbf{"a": 1}\r\n\r\n   \r\n{"a": 2}'
    assert jsonl(content) == [({"a": 1},), ({"a": 2},)]
    assert from_csv(b"\xef\xbb\xbfa,b\r\n1,2\r\n\r\n3,4") == [
        ({"a": "1", "b": "2"},),
        ({"a": "3", "b": "4"},),
    ]


def test_quoted_newlines_commas_and_quotation_marks_belong_to_the_value() -> None:
    assert from_csv('a,b\n"one\ntwo","say ""hi"", please"\n') == [
        ({"a": "one\ntwo", "b": 'say "hi", please'},)
    ]


def test_an_empty_file_is_an_empty_dataset() -> None:
    assert jsonl("") == from_csv("") == from_csv("a,b\n") == []


def test_a_field_may_be_large() -> None:
    large = "x" * 1_000_000
    assert from_csv(f"a\n{large}\n") == [({"a": large},)]
    assert jsonl(json.dumps({"a": large})) == [({"a": large},)]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner, max_size=3
        )
    ),
    max_leaves=5,
)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: name != "turns"
)


@given(st.lists(st.dictionaries(names, json_values, min_size=1, max_size=4), max_size=8))
def test_what_is_written_as_json_lines_is_read_as_it_was(rows: list[dict[str, Any]]) -> None:
    content = "".join(json.dumps(row) + "\n" for row in rows)
    assert jsonl(content) == [(row,) for row in rows]


plain = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@given(st.lists(st.tuples(plain, plain), max_size=8))
def test_what_a_spreadsheet_writes_is_read_as_it_was(rows: list[tuple[str, str]]) -> None:
    out = StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows([("a", "b"), *rows])
    assert from_csv(out.getvalue()) == [({"a": a, "b": b},) for a, b in rows]


@given(st.binary(max_size=200), st.sampled_from((Format.JSONL, Format.CSV)))
def test_any_bytes_are_read_or_refused_by_line(content: bytes, file_format: Format) -> None:
    lines: list[int] = []
    try:
        items_of(content, file_format)
    except DatasetInvalid as refused:
        lines = [problem["line"] for problem in refused.details["problems"]]
    assert all(1 <= line <= content.count(b"\n") + 1 for line in lines)


# --- what is refused ------------------------------------------------------------------------


def test_every_problem_is_named_by_its_line() -> None:
    content = '{"a": 1}\n\n{"a": }\n[1]\n{"a": NaN}\n{"a": 2}\n"text"\n'
    found = problems(jsonl, content)
    assert [line for line, _ in found] == [3, 4, 5, 7]
    assert "expected an object" in found[1][1]
    assert ["NaN" in message for _, message in found] == [False, False, True, False]


@pytest.mark.parametrize("text", [r"\ud83d", r"x\uDE00y", r"\ud83d \ude00", r"\\\ud83d and more"])
def test_half_of_a_surrogate_pair_is_called_that(text: str) -> None:
    ((line, message),) = problems(jsonl, f'{{"a": "{text}"}}\n{{"a": "\\ud83d\\ude00"}}\n')
    assert line == 1
    assert "is half of a surrogate pair and no character" in message


def test_nothing_comes_out_after_a_problem() -> None:
    content = b'{"a": 1}\n{"a"\n' + b'{"a": 1}\n' * 5_000
    reader = DatasetReader(BytesIO(content), Format.JSONL)
    batches: list[Any] = []
    with pytest.raises(DatasetInvalid, match=r"Nothing was imported. line 2: "):
        batches.extend(reader)
    assert batches == []


def test_a_record_of_many_lines_is_named_by_the_line_where_it_begins() -> None:
    content = 'a,b\n"one\ntwo",2\n\n"three\nfour\nfive"\n6,7\n8\n'
    assert problems(from_csv, content) == [
        (5, "1 columns where the header has 2"),
        (9, "1 columns where the header has 2"),
    ]


def test_a_quotation_mark_that_is_never_closed_is_named_where_it_opens() -> None:
    found = problems(from_csv, 'a\n1\n"two\n3\n4\n')
    assert found == [(3, "a quotation mark in this record is never closed")]


def test_text_behind_a_closing_quotation_mark_is_explained() -> None:
    ((line, message),) = problems(from_csv, 'a\n"one" two\n3\n')
    assert line == 2
    assert "twice" in message


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("a,b,a", "the header names a more than once"),
        ("a,,c", "column 2 of the header has no name"),
    ],
)
def test_a_header_that_cannot_be_used_is_refused(header: str, says: str) -> None:
    assert problems(from_csv, f"{header}\n1,2,3\n") == [(1, says)]


def test_bytes_that_are_not_utf_8_are_named_by_their_line() -> None:
    assert problems(jsonl, b'{"a": "b"}\n{"a": "\xff"}\n') == [(2, "not UTF-8 (byte 8)")]
    assert problems(from_csv, b"a\nb\n\xe9t\xe9\nc\n") == [(3, "not UTF-8")]
    ((line, message),) = problems(jsonl, '{"a": 1}'.encode("utf-16"))
    assert line == 1
    assert "UTF-16" in message


def test_a_line_longer_than_a_record_may_be_is_refused_and_the_next_one_read() -> None:
    huge = b'{"a": "' + b"x" * MAX_RECORD_BYTES + b'"}\n'
    assert [line for line, _ in problems(jsonl, huge + b'{"a": }\n')] == [1, 2]
    ((line, message),) = problems(from_csv, b'a\n"' + (b"x" * 65_535 + b"\n") * 257)
    assert line == 2
    assert "left open" in message


def test_turns_that_are_none_are_explained() -> None:
    content = '{"turns": []}\n{"turns": 3}\n{"turns": [{}]}\n{"turns": [{"a": 1}], "b": 2}\n{}\n'
    assert [line for line, _ in problems(jsonl, content)] == [1, 2, 3, 4, 5]


def test_looking_for_problems_ends_somewhere() -> None:
    with pytest.raises(DatasetInvalid, match="and 5 more") as refused:
        jsonl("x\n" * 1_000, most_problems=10)
    assert len(refused.value.details["problems"]) == 10
    assert refused.value.details["complete"] is False


def test_more_items_than_allowed_are_refused_at_the_first_that_is_too_many() -> None:
    assert problems(jsonl, '{"a": 1}\n' * 5, max_items=3) == [(4, "more than the 3 items allowed")]


def test_nesting_beyond_all_measure_is_refused() -> None:
    ((line, _),) = problems(jsonl, '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}")
    assert line == 1


# --- schemas --------------------------------------------------------------------------------

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "n": {"type": "integer"},
        "tags": {"type": ["array", "null"]},
    },
    "required": ["text"],
}


def test_a_row_that_breaks_the_schema_is_named_by_line_and_column() -> None:
    with pytest.raises(DatasetInvalid) as refused:
        jsonl('{"text": "a"}\n{"n": 1}\n{"text": "b", "n": "x"}\n', schema=RowSchema(SCHEMA))
    found = refused.value.details["problems"]
    assert [(p["line"], p["column"]) for p in found] == [(2, None), (3, "n")]
    assert '"x" is not of type "integer"' in found[1]["message"]


def test_the_turn_is_named_where_there_are_several() -> None:
    with pytest.raises(DatasetInvalid) as refused:
        jsonl('{"turns": [{"text": "a"}, {"text": 1}]}', schema=RowSchema(SCHEMA))
    assert refused.value.details["problems"][0]["column"] == "turns[1].text"


def test_text_of_a_csv_file_becomes_what_the_schema_asks_for() -> None:
    content = 'text,n,tags\n1,2,"[""x""]"\nb,,\n'
    assert from_csv("text,n,tags\n1,2,\n", schema=RowSchema(SCHEMA)) == [
        ({"text": "1", "n": 2, "tags": None},)
    ]
    assert [line for line, _ in problems(from_csv, content, schema=RowSchema(SCHEMA))] == [3]


def test_a_schema_is_worked_out_from_what_was_seen() -> None:
    reader = DatasetReader(
        BytesIO(b'{"a": 1, "b": "x"}\n{"a": 1.5, "b": null}\n{"a": 2, "c": true}\n'), Format.JSONL
    )
    assert sum(map(len, reader)) == 3
    assert reader.schema() == {
        "type": "object",
        "properties": {
            "a": {"type": "number"},
            "b": {"type": ["null", "string"]},
            "c": {"type": "boolean"},
        },
        "required": ["a"],
    }
    assert columns_of(reader.schema()) == ("a", "b", "c")


def test_a_given_schema_is_completed_by_the_columns_it_does_not_mention() -> None:
    reader = DatasetReader(
        BytesIO(b'{"text": "a", "more": 1}'), Format.JSONL, schema=RowSchema(SCHEMA)
    )
    list(reader)
    assert set(columns_of(reader.schema())) == {"text", "n", "tags", "more"}
    assert reader.schema()["required"] == ["text"]


@pytest.mark.parametrize(
    "schema",
    [{"type": "nonsense"}, {"$ref": "http://127.0.0.1:9/schema.json"}, {"properties": 3}],
)
def test_a_schema_that_cannot_be_used_is_refused_and_none_is_fetched(
    schema: dict[str, Any],
) -> None:
    with pytest.raises(DatasetInvalid) as refused:
        RowSchema(schema)
    assert refused.value.details == {"field": "schema"}


# --- formats and memory ---------------------------------------------------------------------


def test_the_format_is_told_by_the_name() -> None:
    assert format_of("data/Sentences.JSONL") is Format.JSONL
    assert format_of("a.ndjson") is format_of("jsonl") is Format.JSONL
    assert format_of("a.csv") is format_of("CSV") is Format.CSV
    with pytest.raises(DatasetInvalid, match="jsonl, csv"):
        format_of("a.xlsx")


class Endless(RawIOBase):
    """A file that is made while it is read."""

    def __init__(self, line: bytes, lines: int) -> None:
        self._line = line
        self._left = lines

    def readline(self, size: int | None = -1) -> bytes:
        self._left -= 1
        return self._line if self._left >= 0 else b""


@pytest.mark.parametrize(
    ("file_format", "line"),
    [(Format.JSONL, b'{"a": "' + b"x" * 1_000 + b'"}\n'), (Format.CSV, b"x" * 1_000 + b"\n")],
)
def test_memory_does_not_grow_with_the_file(file_format: Format, line: bytes) -> None:
    def peak(lines: int) -> int:
        tracemalloc.start()
        reader = DatasetReader(Endless(line, lines), file_format)  # type: ignore[arg-type]
        items = sum(len(batch) for batch in reader)
        assert items >= lines - 1
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    assert peak(12_000) < 1.5 * peak(2_000)


# --- limits before work -------------------------------------------------------------------------


def test_a_csv_header_may_have_a_thousand_columns_and_no_more() -> None:
    names = [f"c{number}" for number in range(1000)]
    row = ",".join(["x"] * 1000)
    [(turn,)] = from_csv(f"{','.join(names)}\n{row}\n")
    assert list(turn) == names
    assert problems(from_csv, ",".join(f"c{n}" for n in range(20_000)) + "\n") == [
        (1, "the header has 20,000 columns; at most 1,000")
    ]
    assert problems(from_csv, ",".join(["same"] * 20_000) + "\n") == [
        (1, "the header has 20,000 columns; at most 1,000")
    ]


def test_a_csv_header_without_end_is_not_even_split() -> None:
    split: list[int] = []

    def look(frame: Any, event: str, argument: Any) -> None:
        if event == "return" and frame.f_code.co_name == "_records" and argument:
            split.append(len(argument[1]))

    sys.setprofile(look)
    try:
        found = problems(from_csv, "," * (MAX_HEADER_BYTES + 1) + "\n")
    finally:
        sys.setprofile(None)
    assert found[0][1].startswith(f"a header longer than {MAX_HEADER_BYTES:,} bytes begins here")
    assert split == []


def test_many_repeated_names_are_told_in_few_words() -> None:
    names = [f"c{number}" for number in range(400)] * 2
    [(line, message)] = problems(from_csv, ",".join(names) + "\n")
    assert line == 1
    assert len(message) < 200


def test_an_object_with_too_many_keys_is_refused_before_they_are_kept() -> None:
    row = json.dumps({f"k{number}": number for number in range(5_000)})
    reader = DatasetReader(BytesIO(row.encode()), Format.JSONL)
    with pytest.raises(DatasetInvalid):
        list(reader)
    assert columns_of(reader.schema()) == ()


def test_columns_beside_turns_are_told_in_few_words() -> None:
    row = json.dumps({"turns": [{"a": 1}], **{f"k{number}": 1 for number in range(5_000)}})
    [(_, message)] = problems(jsonl, row)
    assert len(message) < 200
