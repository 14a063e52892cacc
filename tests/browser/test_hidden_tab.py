"""A tab that cannot be seen costs nothing."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect
from tests.browser.pages import PATIENCE_MS, ConsolePage

expect.set_options(timeout=PATIENCE_MS)

# A browser without a window never hides a tab by itself.
SHOW_OR_HIDE = """
(isHidden) => {
  Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}
"""


@pytest.mark.parametrize(
    ("path", "title", "socket"),
    [("/nodes", "Nodes", "/ws/console"), ("/lab", "Lab", "/ws/experiments")],
)
def test_a_hidden_tab_closes_its_socket_and_opens_it_again_when_it_is_seen(
    lab_console: ConsolePage, path: str, title: str, socket: str
) -> None:
    page = lab_console.page
    with page.expect_websocket(lambda opened: opened.url.endswith(socket)) as first:
        lab_console.go(path)
    lab_console.heading(title)
    live = page.get_by_role("status").filter(has_text="Live")
    expect(live).to_be_visible()
    hide(page, is_hidden=True)
    if not first.value.is_closed():
        first.value.wait_for_event("close")
    with page.expect_websocket(lambda opened: opened.url.endswith(socket)) as second:
        hide(page, is_hidden=False)
    expect(live).to_be_visible()
    assert not second.value.is_closed()


def hide(page: Page, *, is_hidden: bool) -> None:
    page.evaluate(SHOW_OR_HIDE, is_hidden)
