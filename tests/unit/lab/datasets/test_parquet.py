"""Parquet files: what each type becomes, and that no file does more than be refused."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import tracemalloc
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]
import pytest

from dragoman.errors import DatasetInvalid, ExtraMissing
from dragoman.lab.datasets import DatasetReader, Format, RowSchema, parquet_file
from dragoman.lab.datasets.lines import MAX_RECORD_BYTES
from dragoman.lab.datasets.problems import Unreadable


def parquet(table: Any, **options: Any) -> bytes:
    out = BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def rows(content: bytes, **options: Any) -> list[Any]:
    reader = DatasetReader(BytesIO(content), Format.PARQUET, **options)
    return [turns[0] for batch in reader for turns in batch]


def refusal(content: bytes, **options: Any) -> DatasetInvalid:
    with pytest.raises(DatasetInvalid) as refused:
        rows(content, **options)
    return refused.value


# --- what each type becomes ----------------------------------------------------------------------


MOMENT = datetime(2024, 2, 29, 12, 30, 5, 250_000, UTC)


FORMS: list[tuple[Any, Any, Any]] = [
    (pa.string(), "ü中\x00", "ü中\x00"),
    (pa.large_string(), "a", "a"),
    (pa.bool_(), True, True),
    (pa.int8(), -1, -1),
    (pa.uint64(), 2**64 - 1, 2**64 - 1),
    (pa.float64(), 1.0, 1.0),
    (pa.float32(), 0.5, 0.5),
    (pa.binary(), b"\x00\xff", "AP8="),
    (pa.binary(2), b"\x00\xff", "AP8="),
    (pa.decimal128(9, 2), Decimal("12.50"), 12.5),
    (pa.decimal128(9, 0), Decimal("12"), 12),
    (pa.decimal128(30, 2), Decimal("1234567890123456789012.50"), "1234567890123456789012.50"),
    (pa.date32(), date(2024, 2, 29), "2024-02-29"),
    (pa.timestamp("ms"), MOMENT, "2024-02-29T12:30:05.25"),
    (pa.timestamp("s"), MOMENT.replace(microsecond=0), "2024-02-29T12:30:05"),
    (pa.timestamp("us", "Asia/Tokyo"), MOMENT.replace(tzinfo=UTC), "2024-02-29T12:30:05.25Z"),
    (pa.timestamp("ns"), -1, "1969-12-31T23:59:59.999999999"),
    (pa.time64("us"), time(1, 2, 3, 4), "01:02:03.000004"),
    (pa.duration("ms"), timedelta(milliseconds=1500), 1.5),
    (pa.list_(pa.string()), ["a", None], ["a", None]),
    (pa.list_(pa.date32()), [date(2024, 1, 1), None], ["2024-01-01", None]),
    (pa.list_(pa.list_(pa.int64())), [[1], []], [[1], []]),
    (
        pa.struct([("x", pa.int64()), ("at", pa.timestamp("s"))]),
        {"x": 1, "at": None},
        {"x": 1, "at": None},
    ),
    (pa.map_(pa.string(), pa.binary()), [("k", b"a"), ("l", None)], {"k": "YQ==", "l": None}),
    (pa.dictionary(pa.int32(), pa.string()), "a", "a"),
]


def test_every_type_has_one_form_as_json() -> None:
    columns = {str(kind): pa.array([value, None], kind) for kind, value, _ in FORMS}
    [found, nothing] = rows(parquet(pa.table(columns)))
    for kind, _, expected in FORMS:
        assert (found[str(kind)], type(found[str(kind)])) == (expected, type(expected)), kind
        assert nothing[str(kind)] is None


def test_a_list_of_turns_is_a_conversation() -> None:
    kind = pa.list_(pa.struct([("q", pa.string())]))
    content = parquet(pa.table({"turns": pa.array([[{"q": "a"}, {"q": "b"}]], kind)}))
    reader = DatasetReader(BytesIO(content), Format.PARQUET)
    assert [item for batch in reader for item in batch] == [({"q": "a"}, {"q": "b"})]


def test_an_empty_file_is_an_empty_dataset() -> None:
    assert rows(parquet(pa.table({"a": pa.array([], pa.string())}))) == []


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_every_compression_is_read(compression: str) -> None:
    table = pa.table({"a": ["x"] * 3000})
    content = parquet(table, compression=compression, row_group_size=700)
    assert len(rows(content)) == 3000


# --- what is wrong, and where --------------------------------------------------------------------


def test_rows_that_cannot_be_used_are_named_by_their_number() -> None:
    table = pa.table({"n": [1.0, float("nan"), float("inf")], "s": ["a", "b", "c"]})
    error = refusal(parquet(table))
    assert "row 2: n: nan is not a JSON number" in error.message
    assert [problem["line"] for problem in error.details["problems"]] == [2, 3]


def test_a_row_that_breaks_the_schema_is_named_by_its_number_and_column() -> None:
    schema = RowSchema({"properties": {"n": {"type": "integer", "maximum": 1500}}})
    content = parquet(pa.table({"n": list(range(2000))}), row_group_size=300)
    error = refusal(content, schema=schema)
    assert error.details["problems"][0]["line"] == 1502
    assert "row 1502, n:" in error.message


def test_text_that_is_not_utf_8_is_named() -> None:
    broken = pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())
    error = refusal(parquet(pa.table({"a": broken})))
    assert "row 2: a: not UTF-8" in error.message


def test_a_cell_may_be_large_up_to_the_limit_of_a_record() -> None:
    large = "x" * 10_000_000
    assert rows(parquet(pa.table({"a": [large, "b"]}))) == [{"a": large}, {"a": "b"}]
    error = refusal(parquet(pa.table({"a": ["b", "x" * (MAX_RECORD_BYTES + 1)]})))
    assert f"row 2: longer than {MAX_RECORD_BYTES:,} bytes" in error.message


def test_more_rows_than_allowed_are_refused_before_the_first_is_read() -> None:
    content = parquet(pa.table({"a": list(range(5000))}))
    reader = DatasetReader(BytesIO(content), Format.PARQUET, max_items=4999)
    with pytest.raises(DatasetInvalid, match=r"5,000 rows, more than the 4,999 items allowed"):
        next(iter(reader))


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), "a more than once"),
        (pa.table([pa.array([1])], names=[""]), "Column 1 has no name"),
        (pa.table({str(n): [1] for n in range(1001)}), "1,001 columns; at most 1,000"),
        (pa.table({"a": pa.array([[(1, 2)]], pa.map_(pa.int64(), pa.int64()))}), "not text"),
        (
            pa.table({"a": pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))}),
            "same key twice",
        ),
        (pa.table({"a": pa.array([10**14], pa.timestamp("s"))}), "years 1 to 9999"),
    ],
)
def test_what_a_dataset_cannot_have_is_refused(table: Any, told: str) -> None:
    assert told in refusal(parquet(table)).message


def nested(levels: int) -> Any:
    kind: Any = pa.int64()
    for _ in range(levels):
        kind = pa.list_(kind)
    return kind


def test_types_that_are_nested_too_deeply_are_refused() -> None:
    content = parquet(pa.table({"a": pa.array([None], nested(40))}))
    assert "The column a: it is nested more than 32 levels deep" in refusal(content).message


# --- hostile files -------------------------------------------------------------------------------


SEED = 20_240_917


def damaged(content: bytes, random: Random) -> bytes:
    """The file with some bytes changed, or some cut out."""
    broken = bytearray(content)
    for _ in range(random.randint(1, 8)):
        broken[random.randrange(len(broken))] = random.randrange(256)
    if random.random() < 0.3:
        begin = random.randrange(len(broken))
        del broken[begin : begin + random.randint(1, 64)]
    return bytes(broken)


def test_a_file_that_is_no_parquet_or_was_cut_off_is_refused() -> None:
    whole = parquet(pa.table({"a": ["x" * 50] * 500}))
    for content in (b"", b"PAR1", b"a,b\n1,2\n", whole[:-1], whole[: len(whole) // 2], whole[9:]):
        error = refusal(content)
        assert error.message.startswith("Nothing was imported. It is not a Parquet file")


def test_damaged_files_are_read_or_refused_and_nothing_else() -> None:
    random = Random(SEED)
    whole = parquet(
        pa.table({"a": ["x" * 9, "y"] * 50, "b": [[1, 2], None] * 50, "c": [0.5, None] * 50})
    )
    outcomes = set()
    for _ in range(8):
        try:
            outcomes.add(bool(rows(damaged(whole, random))))
        except DatasetInvalid:
            outcomes.add(False)
    assert outcomes, f"seed {SEED}"  # each was read or refused


def with_footer_length(content: bytes, length: int) -> bytes:
    return content[:-8] + struct.pack("<I", length) + content[-4:]


def test_a_footer_that_claims_too_much_is_refused() -> None:
    whole = parquet(pa.table({"a": [1]}))
    assert "Parquet" in refusal(with_footer_length(whole, 2**31)).message
    padded = b"PAR1" + b"\0" * (65 << 20) + whole[-8:-4] + b"PAR1"
    told = refusal(with_footer_length(padded, 65 << 20)).message
    assert "The description of the file takes 68,157,440 bytes" in told


def test_a_value_repeated_by_reference_does_not_fill_the_memory() -> None:
    """A dictionary of one value of 10 MB, in 400 rows: 4 GB in a file of some kilobytes."""
    value = pa.array(["x" * 10_000_000])
    bomb = pa.DictionaryArray.from_arrays(pa.array([0] * 400, pa.int32()), value)
    content = parquet(pa.table({"a": bomb}), compression="zstd", dictionary_pagesize_limit=1 << 30)
    assert len(content) < 100_000
    tracemalloc.start()
    with pytest.raises(DatasetInvalid, match="more than 1,000 times as much as the file"):
        for _ in DatasetReader(BytesIO(content), Format.PARQUET):
            pass
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 100 << 20


def test_a_page_that_needs_more_memory_than_allowed_is_refused() -> None:
    # One value: it cannot be read in smaller parts.
    content = parquet(pa.table({"a": ["x" * 120_000_000]}), compression="zstd")
    reader = parquet_file.read_parquet(BytesIO(content), 10, memory_bytes=200 << 20)
    with pytest.raises(Unreadable, match="memory"):
        list(reader)


def test_when_reading_is_given_up_the_process_ends(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    file.write_bytes(parquet(pa.table({"a": ["x" * 1000] * 50_000})))
    with file.open("rb") as content:
        others = children()
        reading = parquet_file.read_parquet(content, 10**6)
        next(reading)
        [pid] = children() - others
        reading.close()  # type: ignore[attr-defined]
    assert pid not in children()


def children() -> set[str]:
    listed = Path("/proc/self/task")
    return {pid for task in listed.iterdir() for pid in (task / "children").read_text().split()}


def test_without_pyarrow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import dragoman.extras

    monkeypatch.setattr(dragoman.extras, "is_installed", lambda module: module != "pyarrow")
    with pytest.raises(ExtraMissing, match=r"pyarrow.*pip install 'dragoman\[lab\]'"):
        DatasetReader(BytesIO(b""), Format.PARQUET)


def test_other_formats_do_not_import_pyarrow() -> None:
    code = (
        "import sys, dragoman.lab.datasets, dragoman.lab.library; print('pyarrow' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"


def test_memory_stays_flat_however_many_rows_a_group_has() -> None:
    table = pa.table({"a": [f"{n} " + "x" * 200 for n in range(30_000)]})
    content = parquet(table, row_group_size=30_000)
    reader = iter(DatasetReader(BytesIO(content), Format.PARQUET))
    next(reader)
    tracemalloc.start()
    for batch in reader:
        assert len(json.dumps(batch[0])) > 200
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 4 << 20
