"""The mirror in a DuckDB file, which one process owns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Condition, Timer
from typing import Any

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]

from dragoman.collector import return_free_pages
from dragoman.lab.mirror.batches import Batch, ScoreRow, Slots, TurnRow, as_columns, column_of
from dragoman.lab.mirror.dialects import DUCKDB
from dragoman.lab.mirror.interface import (
    ANSWER_SECONDS,
    Mirror,
    MirrorAway,
    MirrorIdentity,
    MirrorReader,
    too_slow,
)
from dragoman.lab.mirror.queries import Query
from dragoman.lab.model import ExperimentId
from dragoman.observability import get_logger

FORMAT = 1
"""Raised when the tables change: a mirror of another format is copied anew."""

MEMORY_LIMIT = "2GB"
_CHECKPOINT_THRESHOLD = "1MB"
"""Of changes that are not in the file yet. Until then DuckDB keeps them in memory, removed rows
too, and a lab with little to do would grow for an hour."""
_LATE_ROWS = 10_000
"""Up to here a page reads the long columns of its own rows only."""

MANY_USES = 1_000
QUIET_WRITES = 20
"""After so many the file is closed and opened again: at any time, or while nothing is written.

Each small write leaves 4 to 8 KB that DuckDB frees only when the file is closed, measured with
2.0.0: after 11,000 writes 26 MB, and still more. It is not in duckdb_memory(); probably it is the
list of buffers to evict, which DuckDB clears seldom. Its settings name none that would clear it.
Opening a file of a million rows again takes a fifth of a second."""
_READERS_SECONDS = 0.2
"""How long readers are held back until those before them are done; then it is tried later."""

_TABLES = {
    "lab_turn": {
        "experiment_id": "VARCHAR",
        "item_id": "VARCHAR",
        "repetition": "INTEGER",
        "turn_no": "INTEGER",
        "row_no": "BIGINT",
        "shown_id": "VARCHAR",
        "status": "VARCHAR",
        "error_code": "VARCHAR",
        "error_message": "VARCHAR",
        "latency_ms": "DOUBLE",
        "tokens": "BIGINT",
        "cost": "DOUBLE",
        "outcome": "TINYINT",
    },
    "lab_score": {
        "experiment_id": "VARCHAR",
        "evaluator_no": "INTEGER",
        "name": "VARCHAR",
        "item_id": "VARCHAR",
        "repetition": "INTEGER",
        "turn_no": "INTEGER",
        "row_no": "BIGINT",
        "score": "DOUBLE",
        "label": "VARCHAR",
        "reason": "VARCHAR",
        "error_code": "VARCHAR",
        "error_message": "VARCHAR",
        "statistics": "DOUBLE[]",
    },
    "lab_slot": {
        "experiment_id": "VARCHAR",
        "field": "VARCHAR",
        "is_text": "BOOLEAN",
        "slot": "INTEGER",
    },
    "lab_mirror": {
        "format": "INTEGER",
        "mirror_id": "VARCHAR",
        "flush_no": "BIGINT",
        "complete": "BOOLEAN",
    },
}
_ARROW = {
    "VARCHAR": pa.string(),
    "TINYINT": pa.int8(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "DOUBLE[]": pa.list_(pa.float64()),
}

_FEW_ITEMS = 200
_AMONG_FEW = "list_contains($2::VARCHAR[], item_id)"
_AMONG_MANY = "item_id IN (SELECT unnest($2::VARCHAR[]))"
"""A join, which is faster for many. DuckDB remembers the buffers of thousands of joins before it
lets go of them, and there is one of these every second."""

_log = get_logger(__name__)


class DuckDbMirror(Mirror):
    """A file. What is in it can be copied again, so a damaged one is replaced."""

    dialect = DUCKDB
    has_snapshots = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = _opened(path)
        self.openings = 1
        """How often the file has been opened."""
        # A connection takes one call at a time, and refuses a second one.
        self._opening = Condition()
        self._cursors = 0
        """Those in use. They end with the connection that they are of."""
        self._holding_back = False
        self._uses = 0
        self._writes = 0
        """Both since the file was opened."""
        rows = self._found("SELECT column_name FROM duckdb_columns() WHERE table_name = 'lab_turn'")
        self._columns = {name for (name,) in rows}

    @contextmanager
    def reading(self) -> Iterator[MirrorReader]:
        with _answering(), self._cursor() as cursor:
            cursor.begin()
            try:
                yield _Snapshot(cursor)
            finally:
                cursor.rollback()

    def identity(self) -> MirrorIdentity | None:
        if not self._found("SELECT 1 FROM duckdb_tables() WHERE table_name = 'lab_mirror'"):
            return None
        rows = self._found("SELECT format, mirror_id, flush_no, complete FROM lab_mirror")
        if not rows or rows[0][0] != FORMAT:
            return None
        return MirrorIdentity(*rows[0][1:])

    def begin(self, mirror_id: str) -> None:
        with self._writing() as cursor:
            for table, columns in _TABLES.items():
                described = ", ".join(f"{name} {kind}" for name, kind in columns.items())
                cursor.execute(f"CREATE OR REPLACE TABLE {table} ({described})")
            cursor.execute("INSERT INTO lab_mirror VALUES ($1, $2, 0, false)", [FORMAT, mirror_id])
        self._columns = set(_TABLES["lab_turn"])

    def apply(self, batch: Batch) -> None:
        numbers = sorted({slot for row in batch.turns for slot in row.numbers})
        texts = sorted({slot for row in batch.turns for slot in row.texts})
        added = {column_of(slot, is_text=False): "DOUBLE" for slot in numbers} | {
            column_of(slot, is_text=True): "VARCHAR" for slot in texts
        }
        with self._writing() as cursor:
            for name, kind in added.items():
                if name not in self._columns:
                    cursor.execute(f"ALTER TABLE lab_turn ADD COLUMN IF NOT EXISTS {name} {kind}")
            for table in ("lab_turn", "lab_score"):
                for experiment_id, item_ids in batch.items.items():
                    among = _AMONG_FEW if len(item_ids) <= _FEW_ITEMS else _AMONG_MANY
                    cursor.execute(
                        f"DELETE FROM {table} WHERE experiment_id = $1 AND {among}",
                        [experiment_id, item_ids],
                    )
            for table in ("lab_turn", "lab_score", "lab_slot"):
                for experiment_id in batch.deleted:
                    cursor.execute(f"DELETE FROM {table} WHERE experiment_id = $1", [experiment_id])
            for experiment_id, slots in batch.slots.items():
                for (field, is_text), slot in slots.items():
                    values = [experiment_id, field, is_text, slot]
                    cursor.execute("INSERT INTO lab_slot VALUES ($1, $2, $3, $4)", values)
            if batch.turns:
                _insert(cursor, "lab_turn", _wide(batch, numbers, texts))
            if batch.scores:
                _insert(
                    cursor, "lab_score", _table("lab_score", as_columns(batch.scores, ScoreRow))
                )
            cursor.execute("UPDATE lab_mirror SET flush_no = $1", [batch.flush_no])
        self._columns |= added.keys()

    def set_complete(self) -> None:
        with self._writing() as cursor:
            cursor.execute("UPDATE lab_mirror SET complete = true")

    def slots(self, experiment_id: ExperimentId) -> Slots:
        with self.reading() as reader:
            return reader.slots(experiment_id)

    def ask(self, query: Query) -> list[tuple[Any, ...]]:
        with self.reading() as reader:
            return reader.ask(query)

    def tidy(self, *, quiet: bool) -> None:
        with self._opening, _answering():
            if self._uses < MANY_USES and not (quiet and self._writes >= QUIET_WRITES):
                return
            self._holding_back = True
            try:
                if self._opening.wait_for(lambda: not self._cursors, _READERS_SECONDS):
                    self._open_again()
            finally:
                self._holding_back = False
                self._opening.notify_all()
        return_free_pages()

    def _open_again(self) -> None:
        self._connection.close()
        # Should this fail, each call says so from here on, and the follower starts afresh.
        self._connection = _connected(self._path)
        self.openings += 1
        self._uses = self._writes = 0

    def close(self) -> None:
        with self._opening, _answering():
            self._connection.close()

    def _found(self, text: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with _answering(), self._cursor() as cursor:
            return cursor.execute(text, list(values)).fetchall()

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection of its own: readers wait for no query."""
        with self._opening:
            self._opening.wait_for(lambda: not self._holding_back)
            cursor = self._connection.cursor()
            self._cursors += 1
            self._uses += 1
        try:
            yield cursor
        finally:
            cursor.close()
            with self._opening:
                self._cursors -= 1
                self._opening.notify_all()

    @contextmanager
    def _writing(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """One transaction: it happens whole or not at all, also when the process is killed."""
        with _answering(), self._cursor() as cursor:
            self._writes += 1
            cursor.begin()
            try:
                yield cursor
                cursor.commit()
            except BaseException:
                cursor.rollback()
                raise


class _Snapshot:
    """A transaction: whatever is written meanwhile, it sees what was there when it began."""

    dialect = DUCKDB

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor

    def slots(self, experiment_id: ExperimentId) -> Slots:
        rows = self._cursor.execute(
            "SELECT field, is_text, slot FROM lab_slot WHERE experiment_id = $1 ORDER BY slot",
            [experiment_id],
        ).fetchall()
        return Slots({(field, is_text): slot for field, is_text, slot in rows})

    def ask(self, query: Query) -> list[tuple[Any, ...]]:
        # Of a transaction that is interrupted nothing is left to ask.
        stopping = Timer(ANSWER_SECONDS, self._cursor.interrupt)
        stopping.start()
        try:
            return self._cursor.execute(query.text, [one.value for one in query.values]).fetchall()
        except duckdb.InterruptException:
            raise too_slow() from None
        finally:
            stopping.cancel()


def _opened(path: Path) -> duckdb.DuckDBPyConnection:
    try:
        return _connected(path)
    except duckdb.Error as error:
        if "lock" in str(error):
            raise MirrorAway(
                f"The mirror {path} is open in another process, which alone may use it."
            ) from error
        if not path.is_file():
            raise MirrorAway(f"The mirror {path} cannot be made: {error}") from error
        _log.warning("lab_mirror_damaged", path=str(path), error=str(error))
    for one in (path, path.with_name(f"{path.name}.wal")):
        one.unlink(missing_ok=True)
    with _answering():
        return _connected(path)


def _connected(path: Path) -> duckdb.DuckDBPyConnection:
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY_LIMIT,
        "checkpoint_threshold": _CHECKPOINT_THRESHOLD,
    }
    connection = duckdb.connect(str(path), config=config)
    connection.execute(f"SET late_materialization_max_rows = {_LATE_ROWS}")
    return connection


def _wide(batch: Batch, numbers: list[int], texts: list[int]) -> pa.Table:
    table = _table("lab_turn", as_columns(batch.turns, TurnRow))
    for slot in numbers:
        values = pa.array([row.numbers.get(slot) for row in batch.turns], pa.float64())
        table = table.append_column(column_of(slot, is_text=False), values)
    for slot in texts:
        values = pa.array([row.texts.get(slot) for row in batch.turns], pa.string())
        table = table.append_column(column_of(slot, is_text=True), values)
    return table


def _table(name: str, columns: dict[str, list[Any]]) -> pa.Table:
    kinds = _TABLES[name]
    return pa.table({one: pa.array(values, _ARROW[kinds[one]]) for one, values in columns.items()})


def _insert(cursor: duckdb.DuckDBPyConnection, table: str, rows: pa.Table) -> None:
    cursor.register("added_rows", rows)
    cursor.execute(f"INSERT INTO {table} BY NAME SELECT * FROM added_rows")
    cursor.unregister("added_rows")


@contextmanager
def _answering() -> Iterator[None]:
    """Raise MirrorAway when the database fails."""
    try:
        yield
    except duckdb.Error as error:
        raise MirrorAway(f"The mirror fails: {error}") from error
