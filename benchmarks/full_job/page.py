"""The section of docs/performance.md that a run writes."""

from __future__ import annotations

import os
import platform
from datetime import date
from pathlib import Path

from benchmarks.full_job.figures import Figures

PAGE = Path(__file__).resolve().parents[2] / "docs" / "performance.md"
BEGIN = "<!-- full_job: written by python -m benchmarks full_job --record -->"
END = "<!-- full_job: end -->"


def record(tables: list[Figures], today: date) -> None:
    """Put the figures in the place of the last ones."""
    page = PAGE.read_text()
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE} has no place for them; put in two lines: {BEGIN} and {END}")
    machine = f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores"
    busy = f"load average {os.getloadavg()[1]:.1f} over the last five minutes"
    said = "\n".join(table.markdown() for table in tables)
    PAGE.write_text(
        f"{before}{BEGIN}\nTaken on {today}, {machine}, {busy}.\n\n{said.strip()}\n{END}{after}"
    )
