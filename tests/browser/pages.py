"""A page of the console as a test drives it, which notices everything that goes wrong in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, expect

AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

PATIENCE_MS = 20_000

TABS_MAX = 150

IS_FOCUSED = """
(name) => {
  const at = document.activeElement;
  const label = at?.getAttribute("aria-label") ?? at?.textContent;
  return at?.matches("a, button, input, select, textarea, summary") && label?.trim() === name;
}
"""

# What scrolls cuts off its controls, and a label may stand for its own.
COVERED = """
() => {
  const inSight = (element) => {
    let box = element.getBoundingClientRect();
    let seen = { left: 0, top: 0, right: innerWidth, bottom: innerHeight };
    for (let at = element.parentElement; at !== null; at = at.parentElement) {
      if (getComputedStyle(at).overflow === "visible") continue;
      const edge = at.getBoundingClientRect();
      seen = {
        left: Math.max(seen.left, edge.left), top: Math.max(seen.top, edge.top),
        right: Math.min(seen.right, edge.right), bottom: Math.min(seen.bottom, edge.bottom),
      };
    }
    const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
    return x > seen.left && x < seen.right && y > seen.top && y < seen.bottom ? [x, y] : null;
  };
  const controls = document.querySelectorAll("a[href], button, input, select, textarea, summary");
  return [...controls].flatMap((control) => {
    if (!control.checkVisibility({ opacityProperty: true, visibilityProperty: true })) return [];
    const place = inSight(control);
    if (place === null) return [];
    const top = document.elementFromPoint(...place);
    const isItself = top === null || control.contains(top) || top.contains(control) ||
      [...(control.labels ?? [])].some((label) => label.contains(top)) ||
      top.closest("label, .mantine-Input-wrapper, .mantine-Switch-root")?.contains(control);
    if (isItself) return [];
    return [`${control.outerHTML.slice(0, 120)} under ${top.outerHTML.slice(0, 120)}`];
  });
}
"""


CUT_LABELS = """
() => [...document.querySelectorAll("button, a")]
  .flatMap((control) => [control, ...control.querySelectorAll(".mantine-Button-label")])
  .filter((part) => part.checkVisibility() && getComputedStyle(part).overflowX === "hidden")
  .filter((part) => !part.closest("[role=table]") && part.scrollWidth > part.clientWidth + 1)
  .map((part) => `${part.scrollWidth} in ${part.clientWidth}: ${part.outerHTML.slice(0, 160)}`)
"""


class ConsolePage:
    """One tab with the console in it."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.complaints: list[str] = []
        """What the browser complained of: errors, and what the policy of the page forbade."""
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    @classmethod
    @contextmanager
    def opened(cls, browser: Browser, url: str, **options: Any) -> Iterator[ConsolePage]:
        """A tab in a window of its own; at the end the browser must have complained of nothing."""
        context = browser.new_context(locale="en-GB", **options)
        try:
            page = cls(context.new_page(), url)
            yield page
            assert page.complaints == [], page.complaints
        finally:
            context.close()

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def go(self, path: str) -> None:
        self.page.goto(self.url + path)

    def shows(self, text: str) -> None:
        """Wait until the page shows the text."""
        self.page.get_by_text(text).first.wait_for()

    def heading(self, title: str) -> None:
        """Wait until the page has this title."""
        self.page.get_by_role("heading", name=title, level=1).wait_for()

    def tab_to(self, name: str) -> None:
        """Go to the control of this name as those do who have no mouse."""
        for _ in range(TABS_MAX):
            if self.page.evaluate(IS_FOCUSED, name):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"the keyboard does not reach {name!r}")

    def act(self, action: str, consequence: str = "") -> None:
        """Do what asks first, by keyboard alone: the dialog says what will happen."""
        expect(self.page.get_by_role("button", name=action, exact=True)).to_be_enabled()
        self.tab_to(action)
        self.page.keyboard.press("Enter")
        dialog = self.page.get_by_role("dialog", name=action)
        expect(dialog).to_contain_text(consequence)
        # The dialog keeps the focus: the button outside, of the same name, is out of reach.
        expect(dialog.locator(":focus")).to_have_count(1)
        self.tab_to(action)
        self.page.keyboard.press("Enter")
        expect(dialog).to_be_hidden()

    def covered(self) -> list[str]:
        """Controls in sight that something else lies upon, so that they cannot be used."""
        found: list[str] = self.page.evaluate(COVERED)
        return found

    def cut_labels(self) -> list[str]:
        """Buttons that have no room for what stands on them."""
        found: list[str] = self.page.evaluate(CUT_LABELS)
        return found

    def accessibility_violations(self) -> list[str]:
        """What axe finds on the page as it is shown now."""
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        # Of what is well it says nothing then, which is quicker.
        options = {"runOnly": {"type": "tag", "values": RULES}, "resultTypes": ["violations"]}
        found = self.page.evaluate(f"axe.run(document, {json.dumps(options)})")
        return [
            f"{violation['id']}: {node['html'][:200]} {node['failureSummary']}"
            for violation in found["violations"]
            for node in violation["nodes"]
        ]
