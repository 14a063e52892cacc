"""The process that reads Parquet files, as JSON lines on its standard output.

Parquet is read by native code, from files that may be damaged or made to do harm: a page of a few
bytes can ask for gigabytes, or crash the decoder. Here that ends this process, which has a limit
on its memory, and not the one that runs experiments.

What it writes, a line each: an object is a row, `!` and an object is a row that cannot be used,
`#` and an object ends a file that cannot be read further, `.` is the end of a file that was read
whole. Nothing of Dragoman is imported, so that the process starts fast.
"""

from __future__ import annotations

import json
import math
import resource
import sys
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from itertools import compress
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from decimal import Decimal

MARK = b"dragoman"
"""The key of a column's metadata that tells how an export wrote the column."""
JSON_TEXT = "json"
"""The column holds JSON as text."""
ABSENT = "absent"
"""Null stands for a value that is not there at all."""
WHOLE = "whole"
"""Numbers without a fraction are whole numbers."""

MAX_DEPTH = 32
MAX_FOOTER_BYTES = 64 << 20
MAX_LEAVES = 10_000
"""Columns inside columns count too: each has buffers of its own."""
MAX_EXPANSION = 1_000
FREE_EXPANSION_BYTES = 256 << 20
"""So much may come out of any file; more only out of files in proportion."""
MAX_JSON_BYTES = 8 << 30
BATCH_ROWS = 1_000
BATCH_BYTES = 8 << 20
CPU_SECONDS = 4 * 3600
"""Far more than any file within the limits needs; a decoder that goes in circles ends."""
DOUBLE_DIGITS = 15
"""Decimal digits that a JSON number keeps in every program."""

_FOOTER_END_BYTES = 8
_BUFFER_BYTES = 64 << 10
_NAMES_SHOWN = 10
_REASON_CHARACTERS = 200
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_SECONDS = 86_400
_FIRST_DAY = date(1970, 1, 1)


class ReadLimits(NamedTuple):
    """What the caller allows."""

    max_items: int
    max_columns: int
    max_record_bytes: int
    memory_bytes: int


class ParquetUnreadable(Exception):
    """Raised when the file cannot be read further."""


class BadValue(Exception):
    """Raised when a value has no JSON form."""


Convert = Callable[[Any], Any]


class Column(NamedTuple):
    """A column, and how its values become JSON."""

    name: str
    cast_to: Any
    """An Arrow type whose values Python reads without loss; None: the column's own."""
    convert: Convert | None
    marks: frozenset[str]


# --- from Arrow's types to JSON ------------------------------------------------------------------


def form_of(kind: Any, depth: int = 0) -> tuple[Any, Convert | None]:
    """The Arrow type to read a type as, and what makes JSON of its values; None: they are JSON."""
    import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

    types = pa.types
    if depth > MAX_DEPTH:
        raise ParquetUnreadable(f"it is nested more than {MAX_DEPTH} levels deep")
    if isinstance(kind, pa.BaseExtensionType):
        return _form_of_extension(kind, depth)
    if types.is_dictionary(kind):
        return form_of(kind.value_type, depth + 1)
    for is_kind, form in _SIMPLE.items():
        if getattr(types, is_kind)(kind):
            return form(pa, kind)
    if types.is_map(kind):
        return _form_of_map(pa, kind, depth)
    if types.is_struct(kind):
        return _form_of_struct(pa, kind, depth)
    if any(isinstance(kind, list_type) for list_type in _list_types(pa)):
        inner, convert = form_of(kind.value_type, depth + 1)
        form = pa.large_list(inner) if types.is_large_list(kind) else pa.list_(inner)
        return form, None if convert is None else _each(convert)
    raise ParquetUnreadable(f"its type {kind} has no JSON form")


def _form_of_extension(kind: Any, depth: int) -> tuple[Any, Convert | None]:
    inner, convert = form_of(kind.storage_type, depth + 1)
    if kind.extension_name == "arrow.uuid":
        return kind.storage_type, _uuid_text
    if kind.extension_name == "arrow.json":
        return inner, from_json
    return inner, convert


def _form_of_map(pa: Any, kind: Any, depth: int) -> tuple[Any, Convert | None]:
    if not _is_text(pa, kind.key_type):
        raise ParquetUnreadable(f"the keys of its type {kind} are not text")
    inner, convert = form_of(kind.item_type, depth + 1)

    def as_object(pairs: Any) -> Any:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise BadValue("a map has the same key twice")
        return found if convert is None else {k: _present(convert, v) for k, v in found.items()}

    return pa.map_(pa.string(), inner), as_object


def _form_of_struct(pa: Any, kind: Any, depth: int) -> tuple[Any, Convert | None]:
    fields = [kind.field(number) for number in range(kind.num_fields)]
    names = [field.name for field in fields]
    if len(set(names)) < len(names):
        raise ParquetUnreadable("an object in it has two fields of one name")
    forms = [form_of(field.type, depth + 1) for field in fields]
    form = pa.struct([pa.field(name, inner) for name, (inner, _) in zip(names, forms, strict=True)])
    converts = {n: convert for n, (_, convert) in zip(names, forms, strict=True) if convert}
    if not converts:
        return form, None

    def as_object(found: Any) -> Any:
        return {
            name: _present(converts[name], value) if name in converts else value
            for name, value in found.items()
        }

    return form, as_object


def _list_types(pa: Any) -> tuple[Any, ...]:
    names = ("ListType", "LargeListType", "FixedSizeListType", "ListViewType", "LargeListViewType")
    return tuple(getattr(pa, name) for name in names if hasattr(pa, name))


def _is_text(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


_SIMPLE: dict[str, Callable[[Any, Any], tuple[Any, Convert | None]]] = {
    "is_null": lambda pa, kind: (kind, None),
    "is_boolean": lambda pa, kind: (kind, None),
    "is_integer": lambda pa, kind: (kind, None),
    "is_float16": lambda pa, kind: (pa.float32(), finite),
    "is_floating": lambda pa, kind: (kind, finite),
    "is_string": lambda pa, kind: (kind, None),
    "is_large_string": lambda pa, kind: (kind, None),
    "is_string_view": lambda pa, kind: (pa.large_string(), None),
    "is_binary": lambda pa, kind: (kind, base64_text),
    "is_large_binary": lambda pa, kind: (kind, base64_text),
    "is_binary_view": lambda pa, kind: (pa.large_binary(), base64_text),
    "is_fixed_size_binary": lambda pa, kind: (kind, base64_text),
    "is_decimal": lambda pa, kind: (kind, _decimals(kind.precision, kind.scale)),
    "is_date32": lambda pa, kind: (pa.int32(), date_text),
    "is_date64": lambda pa, kind: (pa.int64(), lambda ms: date_text(ms // (_DAY_SECONDS * 1000))),
    "is_timestamp": lambda pa, kind: (pa.int64(), _moments(kind.unit, kind.tz)),
    "is_time32": lambda pa, kind: (pa.int32(), _times(kind.unit)),
    "is_time64": lambda pa, kind: (pa.int64(), _times(kind.unit)),
    "is_duration": lambda pa, kind: (pa.int64(), _seconds(kind.unit)),
}
"""Types without others inside, by the name of Arrow's own question."""


def _each(convert: Convert) -> Convert:
    return lambda values: [_present(convert, value) for value in values]


def _present(convert: Convert, value: Any) -> Any:
    return None if value is None else convert(value)


def finite(value: float) -> float:
    """The number; NaN and the infinities are refused, since they are not missing values."""
    if not math.isfinite(value):
        raise BadValue(f"{value} is not a JSON number; write null for a missing value")
    return value


def base64_text(value: bytes) -> str:
    return b64encode(value).decode()


def from_json(text: str) -> Any:
    """The JSON that a text holds."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadValue(f"not JSON: {error}") from None


_WRITTEN_NULL = object()
"""A null that the row has, in a column that other rows lack."""


def _from_json_or_null(text: str) -> Any:
    found = from_json(text)
    return _WRITTEN_NULL if found is None else found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _uuid_text(value: bytes) -> str:
    digits = value.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _decimals(precision: int, scale: int) -> Convert:
    def text(value: Decimal) -> str:
        return f"{value:f}"

    if precision > DOUBLE_DIGITS:
        return text
    return int if scale <= 0 else float


def date_text(days: int) -> str:
    """A day as ISO 8601 writes it."""
    try:
        return (_FIRST_DAY + timedelta(days=days)).isoformat()
    except OverflowError:
        raise BadValue("a date outside the years 1 to 9999") from None


def _moments(unit: str, zone: str | None) -> Convert:
    """Moments with a time zone are written in UTC; others have none."""
    a_second, end = _UNITS[unit], "" if zone is None else "Z"

    def text(value: int) -> str:
        seconds, fraction = divmod(value, a_second)
        days, second = divmod(seconds, _DAY_SECONDS)
        return f"{date_text(days)}T{_clock_text(second, fraction, a_second)}{end}"

    return text


def _times(unit: str) -> Convert:
    a_second = _UNITS[unit]

    def text(value: int) -> str:
        second, fraction = divmod(value, a_second)
        return _clock_text(second, fraction, a_second)

    return text


def _clock_text(second: int, fraction: int, a_second: int) -> str:
    minute, second = divmod(second, 60)
    hour, minute = divmod(minute, 60)
    if not 0 <= hour < 24:
        raise BadValue("a time of day outside 00:00 to 24:00")
    digits = f"{fraction:0{len(str(a_second)) - 1}d}".rstrip("0") if fraction else ""
    return f"{hour:02d}:{minute:02d}:{second:02d}" + (f".{digits}" if digits else "")


def _seconds(unit: str) -> Convert:
    a_second = _UNITS[unit]
    return lambda value: value // a_second if value % a_second == 0 else value / a_second


def whole(value: Any) -> Any:
    """A number without a fraction as the whole number that it was."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


# --- rows ----------------------------------------------------------------------------------------


def columns_of(schema: Any, max_columns: int) -> list[Column]:
    """The columns of a file; refused when a dataset cannot have them."""
    names = schema.names
    if not names:
        raise ParquetUnreadable("the file has no columns")
    if len(names) > max_columns:
        raise ParquetUnreadable(f"the file has {len(names):,} columns; at most {max_columns:,}")
    if "" in names:
        raise ParquetUnreadable(f"column {names.index('') + 1} has no name")
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        raise ParquetUnreadable(f"the file has {', '.join(repeated[:_NAMES_SHOWN])} more than once")
    return [_column(schema.field(number)) for number in range(len(names))]


def _column(field: Any) -> Column:
    marks = frozenset((field.metadata or {}).get(MARK, b"").decode(errors="replace").split())
    try:
        cast_to, convert = form_of(field.type)
    except ParquetUnreadable as error:
        raise ParquetUnreadable(f"the column {field.name}: {error}") from None
    if JSON_TEXT in marks:
        convert = _from_json_or_null if ABSENT in marks else from_json
    elif WHOLE in marks and convert is finite:

        def convert(value: Any) -> Any:
            return whole(finite(value))

    return Column(field.name, None if cast_to == field.type else cast_to, convert, marks)


def rows_of(columns: list[Column], batch: Any) -> Iterator[dict[str, Any] | str]:
    """Each row of a batch, or what is wrong with it."""
    bad: dict[int, str] = {}
    cells = [_cells(column, batch.column(number), bad) for number, column in enumerate(columns)]
    names = [column.name for column in columns]
    absent = [ABSENT in column.marks for column in columns]
    optional = list(compress(names, absent))
    for number, values in enumerate(zip(*cells, strict=True)):
        if number in bad:
            yield bad[number]
            continue
        row = dict(zip(names, values, strict=True))
        for name in optional:
            if row[name] is None:
                del row[name]
            elif row[name] is _WRITTEN_NULL:
                row[name] = None
        yield row


def _cells(column: Column, array: Any, bad: dict[int, str]) -> list[Any]:
    try:
        return _values(column, array)
    except (BadValue, ValueError, TypeError, OverflowError):
        pass  # one of them is at fault: find out which
    found: list[Any] = []
    for number in range(len(array)):
        try:
            found += _values(column, array.slice(number, 1))
        except UnicodeDecodeError:
            found.append(None)
            bad.setdefault(number, f"{column.name}: not UTF-8")
        except (BadValue, ValueError, TypeError, OverflowError) as error:
            found.append(None)
            bad.setdefault(number, f"{column.name}: {_first_line(error)}")
    return found


def _values(column: Column, array: Any) -> list[Any]:
    if hasattr(array, "storage"):
        array = array.storage
    values: list[Any] = (
        array if column.cast_to is None else array.cast(column.cast_to)
    ).to_pylist()
    convert = column.convert
    if convert is None:
        return values
    return [None if value is None else convert(value) for value in values]


# --- the file ------------------------------------------------------------------------------------


class ParquetReading:
    """One file, read once."""

    def __init__(self, path: str, limits: ReadLimits, out: BinaryIO) -> None:
        self._path = path
        self._limits = limits
        self._out = out
        self._rows = 0
        self._written_bytes = 0
        self._file_bytes = 0

    def run(self) -> None:
        """Write every row; a file that cannot be read ends with the reason."""
        import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

        try:
            self._read()
        except ParquetUnreadable as error:
            self._end(str(error))
        except MemoryError:
            self._end(
                f"reading it takes more than {self._limits.memory_bytes >> 20:,} MiB of memory; "
                "write the file with smaller pages or smaller values"
            )
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            where = "it is not a Parquet file, or is damaged"
            self._end(f"{where}: {_first_line(error)}")
        else:
            self._out.write(b".\n")
        self._out.flush()

    def _end(self, reason: str) -> None:
        told = {"row": self._rows + 1 if self._rows else 0, "message": reason}
        self._out.write(b"#" + json.dumps(told).encode() + b"\n")

    def _read(self) -> None:
        import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
        import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]

        pa.set_cpu_count(1)
        with open(self._path, "rb") as plain:
            self._check_footer(plain)
        # A column is read through a small buffer, not whole: a row group may be large.
        with pq.ParquetFile(
            pa.OSFile(self._path), buffer_size=_BUFFER_BYTES, pre_buffer=False
        ) as file:
            metadata = file.metadata
            if metadata.num_rows > self._limits.max_items:
                raise ParquetUnreadable(
                    f"the file has {metadata.num_rows:,} rows, more than the "
                    f"{self._limits.max_items:,} items allowed"
                )
            if metadata.num_columns > MAX_LEAVES:
                raise ParquetUnreadable(
                    f"the file has {metadata.num_columns:,} columns, counting those inside "
                    f"others; at most {MAX_LEAVES:,}"
                )
            if metadata.num_rows == 0:
                return  # an empty dataset, whatever its columns
            columns = columns_of(file.schema_arrow, self._limits.max_columns)
            for group in range(metadata.num_row_groups):
                self._read_group(file, group, columns)

    def _check_footer(self, file: BinaryIO) -> None:
        self._file_bytes = file.seek(0, 2)
        file.seek(max(0, self._file_bytes - _FOOTER_END_BYTES))
        length = int.from_bytes(file.read(4), "little")
        if file.read(4) == b"PARE":
            raise ParquetUnreadable("the file is encrypted")
        if length > MAX_FOOTER_BYTES and length < self._file_bytes:
            raise ParquetUnreadable(
                f"the description of the file takes {length:,} bytes; at most {MAX_FOOTER_BYTES:,}"
            )

    def _read_group(self, file: Any, group: int, columns: list[Column]) -> None:
        facts = file.metadata.row_group(group)
        row_bytes = max(1, facts.total_byte_size // max(1, facts.num_rows))
        done = 0
        # What the file says of its size leaves out how often a value is repeated.
        for batch_rows in (max(1, min(BATCH_ROWS, BATCH_BYTES // row_bytes)), 1):
            try:
                skip = done
                for batch in file.iter_batches(batch_rows, row_groups=[group], use_threads=False):
                    if skip >= len(batch):
                        skip -= len(batch)
                        continue
                    for row in rows_of(columns, batch.slice(skip)):
                        self._write(row)
                        done += 1
                    skip = 0
            except MemoryError:
                if batch_rows == 1:
                    raise
            else:
                return

    def _write(self, row: dict[str, Any] | str) -> None:
        most = self._limits.max_record_bytes
        self._rows += 1
        if isinstance(row, dict):
            try:
                line = _encoded(row)
            except RecursionError:
                row = "nested too deeply"
            else:
                if len(line) <= most:
                    self._written_bytes += len(line)
                    self._check_expansion()
                    self._out.write(line)
                    self._out.write(b"\n")
                    return
                row = f"longer than {most:,} bytes"
        self._out.write(b"!" + json.dumps({"message": row}).encode() + b"\n")

    def _check_expansion(self) -> None:
        written = self._written_bytes
        if written > MAX_JSON_BYTES:
            raise ParquetUnreadable(
                f"the rows take more than {MAX_JSON_BYTES:,} bytes as JSON; split the file"
            )
        if written > FREE_EXPANSION_BYTES and written > MAX_EXPANSION * self._file_bytes:
            raise ParquetUnreadable(
                f"the rows take more than {MAX_EXPANSION:,} times as much as the file; "
                "it is damaged, or made to fill the disk"
            )


def _encoded(row: dict[str, Any]) -> bytes:
    import msgspec

    return msgspec.json.encode(row)


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:_REASON_CHARACTERS].rstrip(".")


def main() -> None:
    descriptor, limits, path = sys.argv[1], ReadLimits(*json.loads(sys.argv[2])), sys.argv[3]
    sys.path[:] = json.loads(path)
    resource.setrlimit(resource.RLIMIT_DATA, (limits.memory_bytes, limits.memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open(sys.stdout.fileno(), "wb", closefd=False) as out:
        # Opened again, with a position of its own.
        ParquetReading(f"/dev/fd/{descriptor}", limits, out).run()


if __name__ == "__main__":
    main()
