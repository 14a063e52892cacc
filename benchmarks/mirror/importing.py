"""Imports of many rows of 1 kB into a new database: how long they take, and how much memory.

Run as a program, it imports one file and prints what that took: the peak of a process is what all
its work took together, so each import has a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import duckdb

from benchmarks.mirror.exporting import TENANT, peak_mb
from dragoman.clock import SystemClock
from dragoman.lab.datasets import Format
from dragoman.lab.library import Library
from dragoman.settings import LabSettings
from dragoman.store import open_store, upgrade

_OPTIONS = {
    Format.JSONL: "FORMAT json",
    Format.CSV: "FORMAT csv, HEADER",
    Format.PARQUET: "FORMAT parquet",
}
_ROWS = """
    SELECT substr(repeat(md5(CAST(range AS VARCHAR)), 15), 1, 460) AS source,
        substr(repeat(md5(CAST(-range AS VARCHAR)), 15), 1, 460) AS reference,
        ['news', 'chat', 'law', 'health'][1 + range % 4] AS domain, range AS number
    FROM range({rows})
"""


def write(path: Path, wanted: Format, rows: int) -> None:
    """A file of so many rows, made by a database, which is quicker."""
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({_ROWS.format(rows=rows)}) TO '{path}' ({_OPTIONS[wanted]})")


def import_file(path: Path, wanted: Format) -> tuple[float, float, int]:
    """Import in a process of its own: seconds, its peak in MB, and how many items there are."""
    command = [sys.executable, "-m", "benchmarks.mirror.importing", str(path), wanted.value]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, peak, items = json.loads(said)
    return float(seconds), float(peak), int(items)


async def _import(path: Path, wanted: Format) -> int:
    url = f"sqlite:///{path.with_suffix('.db')}"
    upgrade(url)
    async with await open_store(url) as store:
        library = Library(store, LabSettings(), SystemClock(), Random(1))
        with path.open("rb") as file:
            return (await library.add(TENANT, "rows", file, wanted)).version.items


def main() -> None:
    path, wanted = Path(sys.argv[1]), Format(sys.argv[2])
    started = time.perf_counter()
    items = asyncio.run(_import(path, wanted))
    print(json.dumps([time.perf_counter() - started, peak_mb(), items]))


if __name__ == "__main__":
    main()
