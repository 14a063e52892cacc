"""Exports of many rows of 1 kB from a real database: how long they take, and how much memory.

Run as a program, it exports the rows of one database and prints what that took: the peak of a
process is what all its work took together, so each export has a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import sqlalchemy as sa

from dragoman.ids import TenantId
from dragoman.lab.exporting import FileFormat, written
from dragoman.lab.model import (
    EvaluatorSpec,
    Experiment,
    ExperimentId,
    ExperimentSpec,
    TargetSpec,
    VersionId,
)
from dragoman.lab.repository import experiments
from dragoman.lab.results import Results
from dragoman.lab.states import RunStatus
from dragoman.store import StoreConnection, open_store, upgrade

TENANT = TenantId("bench")
EXPERIMENT = ExperimentId("e-1")
_NUMBERED = """
    WITH RECURSIVE numbered(n) AS (
        SELECT 0 UNION ALL SELECT n + 1 FROM numbered WHERE n + 1 < :rows
    )
"""
_ITEM = "'i-' || printf('%012x', n)"
_SCRAMBLED = "printf('%08x', n * 2654435761 % 4294967296)"
_TEXT = f"substr(replace(hex(zeroblob(200)), '00', {_SCRAMBLED}), 1, {{}})"
_FILLED = {
    "dataset_item (id, tenant, turn_count, turns_json, content_id)": (
        f"{_ITEM}, :tenant, 1, json_array(json_object('source', {_TEXT.format(400)}, "
        f"'domain', 'news')), {_ITEM}"
    ),
    "target_record (id, tenant, run_id, item_id, turn_no, output_json, main, latency_ms, tokens, "
    "cost, created_at_ms)": (
        f"'t-' || n, :tenant, 'r-1', {_ITEM}, 0, json_object('text', {_TEXT.format(400)}), 'text', "
        "n % 997 * 1.5, n % 500, n % 7 * 0.01, 0"
    ),
    "turn_result (experiment_id, item_id, turn_no, tenant, run_id, try_no, status, "
    "target_record_id)": f"'e-1', {_ITEM}, 0, :tenant, 'r-1', 1, 'success', 't-' || n",
    "evaluator_record (id, tenant, run_id, item_id, turn_no, name, score, created_at_ms)": (
        f"'s-' || n, :tenant, 'r-1', {_ITEM}, 0, 'exact', n % 2, 0"
    ),
    "turn_score (run_id, item_id, turn_no, try_no, evaluator_no, evaluator_record_id)": (
        f"'r-1', {_ITEM}, 0, 1, 0, 's-' || n"
    ),
}


def fill(path: Path, rows: int, tenant: TenantId = TENANT) -> None:
    """A database with an experiment of so many turns, each with its output and a score."""
    url = f"sqlite:///{path}"
    upgrade(url)
    asyncio.run(_fill(url, rows, tenant))


async def _fill(url: str, rows: int, tenant: TenantId) -> None:
    spec = ExperimentSpec(
        "many rows", VersionId("v-1"), TargetSpec("recorded"), (EvaluatorSpec("exact", "exact"),)
    )
    made = Experiment(EXPERIMENT, tenant, spec, RunStatus.SUCCESS, None, None, 0, None, None, None)

    def insert(connection: StoreConnection) -> None:
        experiments.insert_experiment(connection, made)
        for table, values in _FILLED.items():
            statement = f"INSERT INTO {table} {_NUMBERED} SELECT {values} FROM numbered"
            connection.execute(sa.text(statement), {"rows": rows, "tenant": tenant})

    async with await open_store(url) as store:
        await store.write(insert)


def export(path: Path, wanted: FileFormat) -> tuple[float, float, int]:
    """Export in a process of its own: seconds, its peak in MB, and the bytes of the file."""
    command = [sys.executable, "-m", "benchmarks.mirror.exporting", str(path), wanted.value]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, peak_mb, size = json.loads(said)
    return float(seconds), float(peak_mb), int(size)


async def _export(path: Path, wanted: FileFormat) -> int:
    size = 0
    async with await open_store(f"sqlite:///{path}") as store:
        results = Results(store)
        columns = {"input.source": False, "input.domain": False, "output.text": False}
        rows = partial(results.stream, TENANT, EXPERIMENT)
        async for piece in written(rows, columns, ["exact"], wanted):
            size += len(piece)
    return size


def main() -> None:
    path, wanted = Path(sys.argv[1]), FileFormat(sys.argv[2])
    started = time.perf_counter()
    size = asyncio.run(_export(path, wanted))
    print(json.dumps([time.perf_counter() - started, peak_mb(), size]))


def peak_mb() -> float:
    """Of this program alone: what the system's call tells begins with that of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


if __name__ == "__main__":
    main()
