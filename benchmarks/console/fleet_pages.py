"""The fleet's pages over ten thousand nodes of which two hundred change each second."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression, median

from playwright.sync_api import Browser, Page, WebSocket

from benchmarks.console.browser import Memory, fresh_page, marked_ms, traced
from benchmarks.full_job.figures import Figures
from benchmarks.processes import running

FIRST_VIEW_MS = 1_500.0
BLOCKED_MS = 100.0
FLAT = 0.05
"""Memory that grows by at most this share over the whole time is flat."""

VIEWS = {
    "overview": ("/", "document.querySelector('main')?.innerText.includes('{nodes}')"),
    "nodes as a table": ("/nodes", "document.querySelectorAll('.node-table-row').length > 0"),
    "nodes as cells": ("/nodes?view=cells", "document.querySelector('[role=option]') !== null"),
    "language pairs": ("/pairs", "document.querySelector('.pair') !== null"),
}
"""Each page with its address, and by what it is seen to be there."""

STEADY = "nodes as a table"
"""The page that is looked at for long."""


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    nodes: int
    changes_per_second: int
    first_views: int
    traced_seconds: float
    settling_seconds: float
    watched_seconds: float
    readings: int


WHOLE = Size(10_000, 200, 5, 10, 300, 600, 20)
QUICK = Size(2_000, 200, 1, 2, 15, 10, 4)


@dataclass
class Heard:
    """What a page was told over its socket."""

    changes: int = 0
    messages: int = 0

    def listen(self, socket: WebSocket) -> None:
        socket.on("framereceived", self._take)

    def _take(self, frame: str | bytes) -> None:
        message = json.loads(frame)
        if message["type"] == "nodes" and not message["reset"]:
            self.messages += 1
            self.changes += len(message["changed"])


def measure(browser: Browser, size: Size) -> list[Figures]:
    """First views and updates of each page, then one page for long."""
    with tempfile.TemporaryDirectory() as name, _server(Path(name), size) as url:
        return [_views(browser, url, size), _for_long(browser, url, size)]


@contextmanager
def _server(folder: Path, size: Size) -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.console.served_fleet"]
    command += ["--data-dir", str(folder / "data"), "--nodes", str(size.nodes)]
    command += ["--changes", str(size.changes_per_second)]
    with running(command, log=None, env={"DRAGOMAN_LOG__LEVEL": "error"}) as process:
        yield address_of(process)


def address_of(process: subprocess.Popen[str]) -> str:
    """Where a server says that it is ready."""
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"ready at (\S+)", line):
            return found[1]
    raise ChildProcessError("the server ended before it was ready")


def _views(browser: Browser, url: str, size: Size) -> Figures:
    figures = Figures(
        f"Fleet pages, {size.nodes:,} nodes, {size.changes_per_second} changes a second",
        (
            "page",
            "first view ms, median (worst)",
            f"held under {FIRST_VIEW_MS:,.0f}",
            "longest task of an update ms",
            f"held to {BLOCKED_MS:.0f}",
            "main thread busy",
        ),
        notes=[
            f"First view: from the address to the painted page with the fleet in it, "
            f"{size.first_views} times with an empty cache. Tasks of the main thread are those of "
            f"the browser's trace over {size.traced_seconds:g} s after it."
        ],
    )
    for name, (path, is_there) in VIEWS.items():
        shown = is_there.format(nodes=f"{size.nodes:,}")
        times = [_first_view(browser, url + path, shown) for _ in range(size.first_views)]
        with fresh_page(browser) as page:
            _open(page, url + path, shown)
            page.wait_for_timeout(2_000)  # what only the first view takes is over
            with traced(browser, page) as found:
                page.wait_for_timeout(size.traced_seconds * 1000)
        (blocking,) = found
        figures.rows.append(
            (
                name,
                f"{median(times):,.0f} ({max(times):,.0f})",
                _held(max(times) < FIRST_VIEW_MS),
                f"{blocking.longest_ms:.0f}",
                _held(blocking.longest_ms <= BLOCKED_MS),
                f"{blocking.busy_share:.0%}",
            )
        )
    return figures


def _first_view(browser: Browser, address: str, is_there: str) -> float:
    with fresh_page(browser) as page:
        return _open(page, address, is_there)


def _open(page: Page, address: str, is_there: str) -> float:
    page.add_init_script(f"markWhen('first view', () => {is_there})")
    page.goto(address, wait_until="commit")
    return marked_ms(page, "first view")


def _for_long(browser: Browser, url: str, size: Size) -> Figures:
    """Memory and updates of a page that an operator leaves open."""
    path, is_there = VIEWS[STEADY]
    with fresh_page(browser) as page:
        heard = Heard()
        page.on("websocket", heard.listen)
        _open(page, url + path, is_there.format(nodes=f"{size.nodes:,}"))
        memory = Memory(page)
        # Rows that came at first share their texts; once each has changed, they do not. And in the
        # first minutes V8 compiles what runs often, which takes half a megabyte, once.
        page.wait_for_timeout(size.settling_seconds * 1000)
        heard.changes = heard.messages = 0
        page.evaluate("longTasks.length = 0")
        began = time.monotonic()
        at, heaps, elements = [], [], []
        for reading in range(size.readings + 1):
            left = began + size.watched_seconds * reading / size.readings - time.monotonic()
            page.wait_for_timeout(max(0.0, left) * 1000)
            # The collector that is asked for keeps the thread, too: its tasks are not the page's.
            page.evaluate("window.asked = performance.now()")
            heaps.append(memory.heap_mb())
            elements.append(memory.elements())
            page.evaluate(
                "longTasks = longTasks.filter(([at]) => at < asked || at > performance.now())"
            )
            at.append(time.monotonic() - began)
        long_tasks = page.evaluate("longTasks.map(([, duration]) => duration)")
    seconds = at[-1] - at[0]
    slope, start = linear_regression(at, heaps)
    growth = slope * seconds / start
    figures = Figures(
        f"{STEADY.capitalize()} left open for {seconds / 60:.1f} min",
        ("what", "figure", "held"),
        notes=[
            f"It was open for {size.settling_seconds:.0f} s before: by then every row has changed "
            "once, and V8 has compiled what runs often."
        ],
    )
    worst = max(long_tasks, default=0.0)
    figures.rows += [
        ("changes a second that reached the page", f"{heard.changes / seconds:.0f}", ""),
        ("messages of changes a second", f"{heard.messages / seconds:.1f}", ""),
        ("heap after collection, MB: first, last", f"{heaps[0]:.1f}, {heaps[-1]:.1f}", ""),
        ("growth of the fitted line", f"{growth:+.1%}", _held(growth <= FLAT)),
        ("elements: first, last", f"{elements[0]:,}, {elements[-1]:,}", ""),
        (
            "tasks over 50 ms; the longest, ms",
            f"{len(long_tasks)}; {worst:.0f}",
            _held(worst <= BLOCKED_MS),
        ),
    ]
    return figures


def _held(is_held: bool) -> str:
    return "yes" if is_held else "NO"
