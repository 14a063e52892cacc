"""A browser that keeps traces of what it did, and what they say."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from shutil import which
from typing import Any

from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

VIEWPORT = {"width": 1280, "height": 800}
CATEGORIES = ["__metadata", "blink.user_timing", "toplevel", "devtools.timeline"]
_TASKS = ("RunTask", "ThreadControllerImpl::RunTask")
PATIENCE_MS = 60_000

# Set after the next frame: what stands in the document has been painted by then.
MARKING = """
window.markWhen = (mark, isThere) => {
  const painted = () => requestAnimationFrame(() => setTimeout(() => performance.mark(mark)));
  const watcher = new MutationObserver(() => {
    if (performance.getEntriesByName(mark).length > 0 || !isThere()) return;
    watcher.disconnect();
    painted();
  });
  watcher.observe(document, { childList: true, subtree: true, characterData: true });
};
window.longTasks = [];
new PerformanceObserver((list) => {
  for (const task of list.getEntries()) window.longTasks.push([task.startTime, task.duration]);
}).observe({ type: "longtask", buffered: true });
"""


class ChromiumMissing(Exception):
    """Raised when there is no browser to measure with."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser of this system, without a screen."""
    program = which("chromium")
    if program is None:
        raise ChromiumMissing("chromium is not installed; `make setup` says how to get it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-gpu", "--enable-precise-memory-info"],
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def fresh_page(browser: Browser) -> Iterator[Page]:
    """A page with nothing in its cache, as the first visit has it."""
    context = browser.new_context(viewport=VIEWPORT, locale="en-GB")  # type: ignore[arg-type]
    try:
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.add_init_script(MARKING)
        yield page
    finally:
        context.close()


def wait_until(page: Page, condition: str) -> None:
    """Wait for a condition; the page's policy lets Playwright itself evaluate none in it."""
    give_up_at = time.monotonic() + PATIENCE_MS / 1000
    while not page.evaluate(condition):
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"waited in vain for {condition}")
        page.wait_for_timeout(20)


def marked_ms(page: Page, mark: str) -> float:
    """When the mark was set, in milliseconds since the page was asked for."""
    wait_until(page, f"performance.getEntriesByName({mark!r}).length > 0")
    found: float = page.evaluate(f"performance.getEntriesByName({mark!r})[0].startTime")
    return found


@dataclass(frozen=True)
class Blocking:
    """How long tasks kept the main thread of a page."""

    longest_ms: float
    busy_share: float
    """Of the time that was traced."""


@contextmanager
def traced(browser: Browser, page: Page) -> Iterator[list[Blocking]]:
    """Trace the browser meanwhile; afterwards the list has what the page's main thread did."""
    found: list[Blocking] = []
    browser.start_tracing(page=page, categories=CATEGORIES)
    page.evaluate("performance.mark('trace begins')")
    try:
        yield found
        page.evaluate("performance.mark('trace ends')")
    finally:
        trace = json.loads(browser.stop_tracing())
    found.append(blocking(trace["traceEvents"]))


def blocking(events: list[Mapping[str, Any]]) -> Blocking:
    """What the main thread that set the marks did between them."""
    marks = {
        event["name"]: event
        for event in events
        if event["name"] in ("trace begins", "trace ends") and event.get("ph") != "M"
    }
    begins, ends = marks["trace begins"], marks["trace ends"]
    thread, (first, last) = (begins["pid"], begins["tid"]), (begins["ts"], ends["ts"])
    # The tasks that set the marks are the benchmark's own.
    lengths = [
        event["dur"]
        for event in events
        if event["name"] in _TASKS
        and (event["pid"], event["tid"]) == thread
        and event.get("ph") == "X"
        and event["ts"] > first
        and event["ts"] + event["dur"] < last
    ]
    share = sum(lengths) / (last - first)
    return Blocking(max(lengths, default=0) / 1000, share)


class Memory:
    """What a page keeps, after the collector has taken what it does not."""

    def __init__(self, page: Page) -> None:
        self._session: CDPSession = page.context.new_cdp_session(page)
        self._session.send("Performance.enable")

    def heap_mb(self) -> float:
        for _ in range(2):  # what is freed by finalizers goes in the second
            self._session.send("HeapProfiler.collectGarbage")
        used: float = self._session.send("Runtime.getHeapUsage")["usedSize"]
        return used / 1e6

    def elements(self) -> int:
        """Nodes of documents, also of those that only scripts still hold."""
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return next(int(one["value"]) for one in metrics if one["name"] == "Nodes")
