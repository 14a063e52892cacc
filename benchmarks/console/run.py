"""The console in a real browser: the fleet of ten thousand nodes, and a million rows."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.table import Table

from benchmarks.console import fleet_pages, rows_page
from benchmarks.console.browser import chromium
from benchmarks.full_job.page import record

ROWS = 1_000_000
QUICK_ROWS = 20_000


def run(quick: bool, recorded: bool) -> list[Table]:
    """Everything in one run; takes some fifteen minutes, `quick` one or two."""
    with chromium() as browser:
        figures = [
            *fleet_pages.measure(browser, fleet_pages.QUICK if quick else fleet_pages.WHOLE),
            rows_page.measure(browser, QUICK_ROWS if quick else ROWS),
        ]
    if recorded:
        record("console", figures, datetime.now(UTC).date())
    return [table.drawn() for table in figures]
