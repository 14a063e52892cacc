"""The sections of docs/performance.md that runs write."""

from __future__ import annotations

import os
import platform
from datetime import date
from pathlib import Path

from benchmarks.full_job.figures import Figures

PAGE = Path(__file__).resolve().parents[2] / "docs" / "performance.md"


def record(benchmark: str, tables: list[Figures], today: date) -> None:
    """Put the figures of a benchmark in the place of its last ones."""
    first = f"<!-- {benchmark}: written by python -m benchmarks {benchmark} --record -->"
    last = f"<!-- {benchmark}: end -->"
    page = PAGE.read_text()
    before, begin, rest = page.partition(first)
    _, end, after = rest.partition(last)
    if not (begin and end):
        raise ValueError(f"{PAGE} has no place for them; put in two lines: {first} and {last}")
    machine = f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores"
    busy = f"load average {os.getloadavg()[1]:.1f} over the last five minutes"
    said = "\n".join(table.markdown() for table in tables)
    PAGE.write_text(
        f"{before}{first}\nTaken on {today}, {machine}, {busy}.\n\n{said.strip()}\n{last}{after}"
    )
