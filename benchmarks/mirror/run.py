"""Pages, aggregates, exports and imports of many rows of 1 kB; the same questions of its peers.

Times are those of the lab's own code and the database, without HTTP, after one warm-up. CPU time is
shown beside the clock's: on a busy machine the clock tells of the neighbours.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
from rich.table import Table

from benchmarks.full_job.figures import Figures
from benchmarks.full_job.page import record
from benchmarks.full_job.peers.environments import NotInstalled, Peer, install
from benchmarks.mirror import exporting, importing
from dragoman.lab.datasets import Format
from dragoman.lab.exporting import FileFormat
from dragoman.lab.filters import EVERYTHING, parse_filter
from dragoman.lab.mirror import (
    Mirror,
    Mirrored,
    grouped_aggregates,
    open_mirror,
    result_places,
)
from dragoman.lab.mirror.batches import OUTCOME, PASSED, STATISTIC, Batch, Field, column_of
from dragoman.lab.model import EvaluatorSpec, ExperimentId
from dragoman.lab.results import Place, Sorting

PAGE_MS = 50.0
AGGREGATES_MS = 150.0
"""What is held of a page and of all aggregates, of a million rows."""
FLAT = 1.25
"""Up to so much more memory for ten times the rows is flat."""
ROWS = 1_000_000
QUICK_ROWS = 20_000
REPEATS = 5
PEER_ROWS = 5_000
QUICK_PEER_ROWS = 200
PEER_SECONDS = 1_800
PEERS = {
    "MLflow, SQLite": Peer("mlflow", ("mlflow-skinny", "sqlalchemy", "alembic"), ()),
    "Phoenix, SQLite": Peer("phoenix", ("arize-phoenix",), ()),
}
STATISTICS = 18
"""As many as chrF has."""
EXPERIMENT = ExperimentId("e-1")
EVALUATORS = tuple(
    EvaluatorSpec(kind, kind, settings={"reference": "reference"}) for kind in ("exact", "chrf")
)
ASKED = Mirrored(EXPERIMENT, EVALUATORS, {"exact": 0, "chrf": 1})

_FIELDS: list[tuple[Field, str]] = [
    (("input.source", True), "source"),
    (("input.domain", True), "['news', 'chat', 'law', 'health'][1 + n % 4]"),
    (("output.text", True), "answer"),
    # What evaluators said goes by their numbers.
    (("score.0", False), "CAST(exact AS DOUBLE)"),
    (("score.1", False), "chrf"),
    ((f"{PASSED}0", False), "CAST(exact AS DOUBLE)"),
    ((f"{OUTCOME}0", False), "CAST(0 AS DOUBLE)"),
    ((f"{OUTCOME}1", False), "CAST(0 AS DOUBLE)"),
    *(
        ((f"{STATISTIC}{number}.1", False), f"CAST((n * {number + 7}) % 97 AS DOUBLE)")
        for number in range(STATISTICS)
    ),
]


@dataclass(frozen=True)
class Options:
    """What of it to run, and what to do with the figures."""

    quick: bool = False
    peers: bool = True
    record: bool = False


def run(options: Options) -> list[Table]:
    """Everything in one run, so that the figures may be compared."""
    rows = QUICK_ROWS if options.quick else ROWS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with _filled(folder / "lab.duckdb", rows) as mirror:
            figures = [_questions(mirror, rows)]
        figures += [_exports(folder, rows), _imports(folder, rows)]
        if options.peers:
            few = QUICK_PEER_ROWS if options.quick else PEER_ROWS
            figures.append(_beside_peers(folder, few))
    if options.record:
        record("mirror", figures, datetime.now(UTC).date())
    return [table.drawn() for table in figures]


@contextmanager
def _filled(path: Path, rows: int) -> Iterator[Mirror]:
    _fill(path, rows)
    mirror = open_mirror(f"duckdb:///{path}")
    try:
        yield mirror
    finally:
        mirror.close()


def _exports(folder: Path, rows: int) -> Figures:
    table = Figures(
        f"Exports of {rows // 10:,} and {rows:,} rows from SQLite, each in a process of its own",
        ("rows", "as", "seconds", "peak MB", "file MB"),
    )
    peaks: dict[str, list[float]] = {}
    for number in (rows // 10, rows):
        path = folder / f"rows-{number}.db"
        exporting.fill(path, number)
        for wanted in FileFormat:
            seconds, peak_mb, size = exporting.export(path, wanted)
            cells = (f"{number:,}", wanted.value, f"{seconds:.1f}", f"{peak_mb:.0f}")
            table.rows.append((*cells, f"{size / 1e6:.0f}"))
            peaks.setdefault(wanted.value, []).append(peak_mb)
        path.unlink()
    if rows >= ROWS:  # of few rows a process is mostly its libraries
        table.notes.append(_flat(peaks))
    return table


def _flat(peaks: dict[str, list[float]]) -> str:
    """Whether ten times the rows take about the same memory."""
    grown = [name for name, (few, many) in peaks.items() if many > few * FLAT]
    if grown:
        return f"Memory GREW with the rows of {', '.join(grown)}: held is at most {FLAT:g} x."
    return f"Memory is flat: ten times the rows take at most {FLAT:g} x of it."


def _imports(folder: Path, rows: int) -> Figures:
    table = Figures(
        f"Imports of {rows // 10:,} and {rows:,} rows into SQLite, each in a process of its own",
        ("rows", "of", "seconds", "rows/s", "peak MB", "file MB"),
    )
    peaks: dict[str, list[float]] = {}
    for number in (rows // 10, rows):
        for wanted in (Format.JSONL, Format.CSV, Format.PARQUET):
            path = folder / f"rows.{wanted.value}"
            importing.write(path, wanted, number)
            seconds, peak_mb, items = importing.import_file(path, wanted)
            cells = (f"{items:,}", wanted.value, f"{seconds:.1f}", f"{items / seconds:,.0f}")
            size_mb = path.stat().st_size / 1e6
            table.rows.append((*cells, f"{peak_mb:.0f}", f"{size_mb:.0f}"))
            peaks.setdefault(wanted.value, []).append(peak_mb)
            for made in folder.glob("rows.*"):
                made.unlink()
    if rows >= ROWS:  # of few rows a process is mostly its libraries
        table.notes.append(_flat(peaks))
    return table


def _beside_peers(folder: Path, rows: int) -> Figures:
    """The same questions of as many rows, as far as the peers have them.

    A row is a run of MLflow with two metrics and two texts: its store has no smaller unit that can
    be filtered and sorted by a number. It has no aggregates; every run is read and added up. A row
    is a span of Phoenix with two annotations, asked for over HTTP, as its pages do; its aggregates
    are means and percentiles of the latency.
    """
    table = Figures(
        f"The same questions of {rows:,} rows, of peers' stores too",
        ("store", "page of 100 ms", "aggregates ms", "writing rows/s"),
        notes=[
            "The page: a score below 30, the slowest first. A row is a run of MLflow with two "
            "metrics and two texts, whose aggregates are every run read and added up; of Phoenix "
            "a span with two annotations, asked for over HTTP, whose aggregates are means and "
            "percentiles of the latency."
        ],
    )
    with _filled(folder / "few.duckdb", rows) as mirror:
        low = parse_filter({"field": "score.chrf", "op": "<", "value": 30})
        slowest = [Sorting("latency_ms", descending=True)]
        page, _ = _timed(lambda: result_places(mirror, ASKED, low, slowest, None, 100))
        amount, _ = _timed(lambda: grouped_aggregates(mirror, ASKED, EVERYTHING, None))
        table.rows.append(("Dragoman's mirror, DuckDB", f"{page:.1f}", f"{amount:.1f}", ""))
    for name, peer in PEERS.items():
        try:
            logged, page, amount = _asked(peer, folder / peer.name, rows)
        except (NotInstalled, subprocess.SubprocessError) as error:
            said = str(getattr(error, "stderr", None) or error).strip().splitlines()[-1]
            table.rows.append((name, f"not measured: {said}", "", ""))
        else:
            cells = (f"{page * 1000:.1f}", f"{amount * 1000:.1f}", f"{rows / logged:.0f}")
            table.rows.append((name, *cells))
    return table


def _asked(peer: Peer, folder: Path, rows: int) -> tuple[float, float, float]:
    """The seconds of writing the rows, of a page, and of aggregates."""
    install(peer)
    folder.mkdir()
    script = str(Path(__file__).with_name("peers") / f"with_{peer.name}.py")
    said = subprocess.run(
        [str(peer.python), script, str(folder), str(rows)],
        check=True,
        capture_output=True,
        text=True,
        timeout=PEER_SECONDS,
    ).stdout
    logged, page, amount = json.loads(said.splitlines()[-1])
    return logged, page, amount


def _fill(path: Path, rows: int) -> None:
    """A mirror with so many rows, made by the database itself, which is quicker."""
    mirror = open_mirror(f"duckdb:///{path}")
    mirror.begin("m-1")
    slots: dict[Field, int] = {}
    for (field, is_text), _ in _FIELDS:
        slots[field, is_text] = sum(1 for _, other in slots if other is is_text)
    mirror.apply(Batch(1, slots={EXPERIMENT: slots}))
    mirror.close()
    named = [
        (column_of(slots[field], is_text=field[1]), value, "VARCHAR" if field[1] else "DOUBLE")
        for field, value in _FIELDS
    ]
    with duckdb.connect(str(path)) as connection:
        for column, _, kind in named:
            connection.execute(f"ALTER TABLE lab_turn ADD COLUMN {column} {kind}")
        values = ", ".join(f"{value} AS {column}" for column, value, _ in named)
        connection.execute(
            f"""
            INSERT INTO lab_turn BY NAME
            SELECT '{EXPERIMENT}' AS experiment_id,
                'i-0000000000' || lpad(to_hex(n), 10, '0') AS item_id,
                0 AS repetition, 0 AS turn_no, n AS row_no,
                'i-' || md5(CAST(n AS VARCHAR)) AS shown_id,
                'success' AS status, latency AS latency_ms, n % 500 AS tokens, cost,
                0 AS outcome, {values}
            FROM (SELECT range AS n, random() * 2000 AS latency, random() AS cost,
                random() * 100 AS chrf, CAST(random() < 0.7 AS INTEGER) AS exact,
                substr(repeat(md5(CAST(range AS VARCHAR)), 13), 1, 400) AS source,
                substr(repeat(md5(CAST(-range AS VARCHAR)), 13), 1, 400) AS answer
                FROM range({rows}))
            """
        )


def _questions(mirror: Mirror, rows: int) -> Figures:
    table = Figures(
        f"Mirror on DuckDB, {rows:,} rows of 1 kB",
        ("question", "clock ms", "CPU ms of all cores", "hold, ms", "held"),
        notes=[
            "The best of five after one warm-up. A machine with other work to do takes longer by "
            "the clock; what the question costs is the CPU time, which two cores share."
        ],
    )
    low = parse_filter({"field": "score.chrf", "op": "<", "value": 30})
    both = parse_filter(
        {
            "and": [
                {"field": "input.domain", "op": "=", "value": "law"},
                {"field": "latency_ms", "op": ">", "value": 100},
                {"not": {"field": "score.exact", "op": "=", "value": 1}},
            ]
        }
    )
    slowest = [Sorting("latency_ms", descending=True)]
    worst = [Sorting("score.chrf"), Sorting("cost", descending=True)]
    deep = Place("i-0", 0, (1000.0,))

    def page(wanted: Any, sorting: list[Sorting], after: Place | None = None) -> object:
        # The rows themselves are then read from the database, by their keys.
        return result_places(mirror, ASKED, wanted, sorting, after, 100)

    def aggregates(wanted: Any) -> object:
        return grouped_aggregates(mirror, ASKED, wanted, None)

    def grouped_by(field: str) -> object:
        return grouped_aggregates(mirror, ASKED, EVERYTHING, field)

    asked: list[tuple[str, Callable[[], object], float]] = [
        ("page: a score below, the slowest first", lambda: page(low, slowest), PAGE_MS),
        ("page: three conditions, two sorts", lambda: page(both, worst), PAGE_MS),
        ("page: in the middle of an order", lambda: page(low, slowest, deep), PAGE_MS),
        ("all aggregates, every row", lambda: aggregates(EVERYTHING), AGGREGATES_MS),
        ("all aggregates, a score below", lambda: aggregates(low), AGGREGATES_MS),
        ("all aggregates by domain, four groups", lambda: grouped_by("input.domain"), 0),
    ]
    for name, ask, hold in asked:
        clock, cpu = _timed(ask)
        held = ("", "") if not hold else (f"under {hold:g}", _held(clock, cpu, hold))
        table.rows.append((name, f"{clock:.0f}", f"{cpu:.0f}", *held))
    return table


def _held(clock: float, cpu: float, hold: float) -> str:
    """Whether a hold was kept; where the clock says no and the CPU yes, others had the cores."""
    if clock < hold:
        return "yes"
    return "by CPU time: the machine is busy" if cpu < hold else "NO"


def _timed(ask: Callable[[], object]) -> tuple[float, float]:
    """The best of several, in milliseconds: by the clock, and of all cores together."""
    ask()
    best = (float("inf"), float("inf"))
    for _ in range(REPEATS):
        clock, cpu = time.perf_counter(), time.process_time()
        ask()
        taken = (time.perf_counter() - clock, time.process_time() - cpu)
        best = (min(best[0], taken[0]), min(best[1], taken[1]))
    return best[0] * 1000, best[1] * 1000
