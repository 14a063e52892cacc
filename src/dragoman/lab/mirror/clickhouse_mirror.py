"""The mirror on a ClickHouse server, over HTTP.

Rows are only ever appended: of two rows of a turn, the one with the larger `row_no` counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
import msgspec

from dragoman.lab.mirror.batches import Batch, Slots, column_of
from dragoman.lab.mirror.dialects import CLICKHOUSE, ValueKind
from dragoman.lab.mirror.interface import (
    ANSWER_SECONDS,
    BadPattern,
    Mirror,
    MirrorAway,
    MirrorIdentity,
    MirrorReader,
    TooSlow,
    too_slow,
)
from dragoman.lab.mirror.queries import Query, Value
from dragoman.lab.model import ExperimentId

FORMAT = 1
"""Raised when the tables change: a mirror of another format is copied anew."""

DEFAULT_PORT = 8123
HTTP_SECONDS = 60.0
_BAD_PATTERN = "Code: 427"
_TOO_SLOW = ("Code: 159", "Code: 160")
_SETTINGS = {
    "output_format_json_quote_64bit_integers": "0",
    "mutations_sync": "1",
    # A value that is missing in a row that is written is missing, not a default.
    "input_format_null_as_default": "1",
}

_LIMIT = f"SETTINGS max_execution_time = {ANSWER_SECONDS:.0f}"

_KEY = "experiment_id String, item_id String, repetition Int32, turn_no Int32, row_no Int64"
_TABLES = {
    "lab_turn": (
        f"{_KEY}, shown_id String, status String, error_code Nullable(String), "
        "error_message Nullable(String), latency_ms Nullable(Float64), tokens Nullable(Int64), "
        "cost Nullable(Float64), outcome Nullable(Int8)",
        "ReplacingMergeTree(row_no) ORDER BY (experiment_id, item_id, repetition, turn_no)",
    ),
    "lab_score": (
        f"{_KEY}, evaluator_no Int32, name String, score Nullable(Float64), "
        "label Nullable(String), reason Nullable(String), error_code Nullable(String), "
        "error_message Nullable(String), statistics Array(Float64)",
        "ReplacingMergeTree(row_no) "
        "ORDER BY (experiment_id, evaluator_no, item_id, repetition, turn_no)",
    ),
    "lab_slot": (
        "experiment_id String, field String, is_text Bool, slot Int32",
        "ReplacingMergeTree ORDER BY (experiment_id, field, is_text)",
    ),
    "lab_mirror": (
        "format Int32, mirror_id String, flush_no Int64, complete Bool, version UInt64",
        "ReplacingMergeTree(version) ORDER BY format",
    ),
}

_encode = msgspec.json.Encoder().encode
_data = msgspec.json.Decoder(dict[str, Any])


class ClickHouseMirror(Mirror):
    """Tables in a database of a ClickHouse server."""

    dialect = CLICKHOUSE
    has_snapshots = False

    def __init__(self, url: str) -> None:
        """``clickhouse://user:password@host:8123/database``; ``clickhouses://`` is over TLS."""
        parts = urlsplit(url)
        scheme = "https" if parts.scheme == "clickhouses" else "http"
        self._database = unquote(parts.path.strip("/")) or "default"
        self._where = f"{parts.hostname}:{parts.port or DEFAULT_PORT}"
        auth = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
        self._http = httpx.Client(
            base_url=f"{scheme}://{self._where}",
            auth=auth,
            params={"database": self._database, **_SETTINGS},
            timeout=HTTP_SECONDS,
        )
        self._columns: set[str] | None = None

    @contextmanager
    def reading(self) -> Iterator[MirrorReader]:
        yield self

    def identity(self) -> MirrorIdentity | None:
        if not self._rows("EXISTS TABLE lab_mirror")[0][0]:
            return None
        rows = self._rows(
            "SELECT format, mirror_id, flush_no, complete FROM lab_mirror "
            "ORDER BY version DESC LIMIT 1"
        )
        if not rows or rows[0][0] != FORMAT:
            return None
        _, mirror_id, flush_no, complete = rows[0]
        return MirrorIdentity(mirror_id, flush_no, bool(complete))

    def begin(self, mirror_id: str) -> None:
        for table, (columns, engine) in _TABLES.items():
            self._do(f"DROP TABLE IF EXISTS {table} SYNC")
            self._do(f"CREATE TABLE {table} ({columns}) ENGINE = {engine}")
        self._columns = None
        self._identify(MirrorIdentity(mirror_id, 0, complete=False))

    def apply(self, batch: Batch) -> None:
        known = self._identity_now()
        wide = [_wide(row) for row in batch.turns]
        self._add_columns({name for row in wide for name in row} - self._known_columns())
        # Before the rows that need them, and the turns last: scores without a turn are not seen.
        self._insert(
            "lab_slot",
            [
                {"experiment_id": experiment_id, "field": field, "is_text": is_text, "slot": slot}
                for experiment_id, slots in batch.slots.items()
                for (field, is_text), slot in slots.items()
            ],
        )
        self._insert("lab_score", batch.scores)
        self._insert("lab_turn", wide)
        for experiment_id, item_ids in batch.removed().items():
            for table in ("lab_turn", "lab_score"):
                self._do(
                    f"ALTER TABLE {table} DELETE WHERE experiment_id = {{p1:String}} "
                    "AND item_id IN {p2:Array(String)}",
                    [Value(ValueKind.TEXT, experiment_id), Value(ValueKind.TEXTS, item_ids)],
                )
        for experiment_id in batch.deleted:
            for table in ("lab_turn", "lab_score", "lab_slot"):
                self._do(
                    f"ALTER TABLE {table} DELETE WHERE experiment_id = {{p1:String}}",
                    [Value(ValueKind.TEXT, experiment_id)],
                )
        self._identify(msgspec.structs.replace(known, flush_no=batch.flush_no))

    def set_complete(self) -> None:
        self._identify(msgspec.structs.replace(self._identity_now(), complete=True))

    def slots(self, experiment_id: ExperimentId) -> Slots:
        rows = self._rows(
            "SELECT field, is_text, slot FROM lab_slot FINAL WHERE experiment_id = {p1:String} "
            "ORDER BY slot",
            [Value(ValueKind.TEXT, experiment_id)],
        )
        return Slots({(field, bool(is_text)): slot for field, is_text, slot in rows})

    def ask(self, query: Query) -> list[tuple[Any, ...]]:
        return self._rows(f"{query.text} {_LIMIT}", query.values)

    def tidy(self, *, quiet: bool) -> None:
        """Nothing: the server sees to its own memory."""

    def close(self) -> None:
        self._http.close()

    def _identity_now(self) -> MirrorIdentity:
        found = self.identity()
        if found is None:
            raise MirrorAway(f"The mirror on {self._where} has lost its tables.")
        return found

    def _identify(self, identity: MirrorIdentity) -> None:
        row = {
            "format": FORMAT,
            "mirror_id": identity.mirror_id,
            "flush_no": identity.flush_no,
            "complete": identity.complete,
            "version": 2 * identity.flush_no + identity.complete,
        }
        self._insert("lab_mirror", [row])

    def _known_columns(self) -> set[str]:
        if self._columns is None:
            rows = self._rows("DESCRIBE TABLE lab_turn")
            self._columns = {row[0] for row in rows}
        return self._columns

    def _add_columns(self, names: set[str]) -> None:
        if not names:
            return
        self._columns = None
        added = ", ".join(
            f"ADD COLUMN IF NOT EXISTS {name} Nullable({'String' if 'text' in name else 'Float64'})"
            for name in sorted(names)
        )
        self._do(f"ALTER TABLE lab_turn {added}")

    def _insert(self, table: str, rows: Sequence[Any]) -> None:
        if not rows:
            return
        query = {"query": f"INSERT INTO {table} FORMAT JSONEachRow"}
        body = b"\n".join(_encode(row) for row in rows)
        with self._answering():
            answer = self._http.post("/", params=query, content=body)
        if answer.is_error:
            raise _refusal(answer)

    def _rows(self, text: str, values: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        answer = self._do(f"{text} FORMAT JSONCompact", values)
        return [tuple(row) for row in _data.decode(answer)["data"]]

    def _do(self, text: str, values: Sequence[Value] = ()) -> bytes:
        with self._answering():
            answer = self._http.post("/", files=_form(text, values))
        if answer.is_error:
            raise _refusal(answer)
        return answer.content

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except httpx.HTTPError as error:
            raise MirrorAway(
                f"The ClickHouse server at {self._where} does not answer ({type(error).__name__})."
            ) from error


def _wide(row: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.structs.asdict(row)
    numbers, texts = found.pop("numbers"), found.pop("texts")
    found |= {column_of(slot, is_text=False): value for slot, value in numbers.items()}
    return found | {column_of(slot, is_text=True): value for slot, value in texts.items()}


def _form(text: str, values: Sequence[Value]) -> dict[str, tuple[None, str]]:
    """A statement and its values as a form, which has no limit of length as addresses have."""
    form: dict[str, tuple[None, str]] = {"query": (None, text)}
    for number, value in enumerate(values, 1):
        form[f"param_p{number}"] = (None, _written(value))
    return form


def _written(value: Value) -> str:
    """A value as the server reads it."""
    if value.kind is ValueKind.TEXT:
        return _escaped(value.value)
    if value.kind is ValueKind.TEXTS:
        listed = ",".join("'" + _escaped(one).replace("'", "\\'") + "'" for one in value.value)
        return f"[{listed}]"
    if value.kind is ValueKind.NUMBERS:
        return f"[{','.join(repr(one) for one in value.value)}]"
    return repr(value.value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _refusal(answer: httpx.Response) -> BadPattern | MirrorAway | TooSlow:
    said = answer.text.strip().partition("\n")[0][:500]
    if said.startswith(_BAD_PATTERN):
        return BadPattern(f"The pattern of `matches` is not valid: {said}")
    if said.startswith(_TOO_SLOW):
        return too_slow()
    return MirrorAway(f"The ClickHouse server refuses: {said}")
