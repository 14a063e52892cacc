"""The rows page over a million rows: from a filter to the painted rows."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import httpx
from playwright.sync_api import Browser, Page

from benchmarks.console.browser import fresh_page, wait_until
from benchmarks.console.fleet_pages import address_of
from benchmarks.full_job.figures import Figures
from benchmarks.mirror import exporting
from benchmarks.processes import running
from dragoman.ids import TenantId

PAINTED_MS = 300.0
REPEATS = 5
TENANT = TenantId("default")

QUESTIONS = {
    "a score and a latency, in the order of the dataset": "score.exact = 1 and latency_ms > {low}",
    "few of the rows": "latency_ms > 1400 and score.exact = 1 and tokens < {few}",
    "a text that the input contains": 'input.source contains "{piece}"',
    "not, and or": 'not status = "fail" and (tokens < {few} or latency_ms < {low})',
}
"""Filters as they are typed; what is in braces is another one each time, so that none is known."""

# From the key to the frame that shows the rows of another table.
WATCHING = """
window.addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  const rows = () => document.querySelector(".node-table-body");
  const before = rows();
  const from = event.timeStamp;
  window.paintedMs = null;
  const watcher = new MutationObserver(() => {
    const now = rows();
    if (now === null || now === before) return;
    // Rows, or the word that there are none.
    if (now.childElementCount === 0 && !document.querySelector(".rows-table p")) return;
    watcher.disconnect();
    requestAnimationFrame(() => setTimeout(() => {
      window.paintedMs = performance.now() - from;
    }));
  });
  watcher.observe(document, { childList: true, subtree: true });
}, true);
"""


def measure(browser: Browser, rows: int) -> Figures:
    """Each question several times, on a real server whose lab has so many rows."""
    figures = Figures(
        f"Rows page over {rows:,} rows",
        ("filter", "from Enter to painted ms, median", "worst", f"held under {PAINTED_MS:.0f}"),
        notes=[
            f"{REPEATS} times, each with other values. The first 200 rows that pass are asked for "
            "over HTTP, found by the mirror, read from SQLite, and those in sight are painted."
        ],
    )
    with (
        tempfile.TemporaryDirectory() as name,
        _server(Path(name), rows) as url,
        fresh_page(browser) as page,
    ):
        page.add_init_script(WATCHING)
        page.goto(f"{url}/lab/experiments/{exporting.EXPERIMENT}/rows")
        page.locator(".node-table-row").first.wait_for()
        for name, question in QUESTIONS.items():
            times = [_painted_ms(page, _with_values(question, n)) for n in range(REPEATS)]
            worst = max(times)
            held = "yes" if worst < PAINTED_MS else "NO"
            figures.rows.append((name, f"{median(times):.0f}", f"{worst:.0f}", held))
    return figures


def _with_values(question: str, number: int) -> str:
    return question.format(low=900 + number, few=5 + number, piece=f"{55 + number:02x}")


def _painted_ms(page: Page, asked: str) -> float:
    field = page.get_by_label("Filter", exact=True)
    field.fill(asked)
    field.press("Enter")
    wait_until(page, "typeof paintedMs === 'number'")
    found: float = page.evaluate("paintedMs")
    return found


@contextmanager
def _server(folder: Path, rows: int) -> Iterator[str]:
    """A server whose lab has so many rows, once its mirror has them too."""
    data = folder / "data"
    data.mkdir()
    # In a thread: the browser's own event loop runs in this one.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(exporting.fill, data / "dragoman.db", rows, TENANT).result()
    command = [str(Path(sys.executable).with_name("dragoman")), "serve", "--port", "0"]
    with running([*command, "--data-dir", str(data), "--log-level", "error"]) as process:
        url = address_of(process)
        _wait_for_mirror(url)
        yield url


def _wait_for_mirror(url: str) -> None:
    while True:
        shown = httpx.get(f"{url}/api/v1/lab/mirror", timeout=60).raise_for_status().json()
        if shown["ready"] and not shown["lag_rows"]:
            return
        time.sleep(0.5)
