"""The pages about the server itself: its settings, and what it would alert of."""

from __future__ import annotations

from playwright.sync_api import expect
from tests.browser.pages import PATIENCE_MS, ConsolePage

expect.set_options(timeout=PATIENCE_MS)


def test_settings_are_searched_and_show_where_they_came_from(console: ConsolePage) -> None:
    console.go("/settings")
    console.heading("Settings")
    rows = console.page.get_by_role("row")
    expect(rows.filter(has_text="server.port")).to_contain_text("flag --port")
    console.page.keyboard.press("/")
    console.page.keyboard.type("max_sessions")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("default")
    assert "q=max_sessions" in console.page.url
    console.go("/settings?given=true")
    expect(rows.filter(has_text="server.data_dir")).to_have_count(1)
    expect(rows.filter(has_text="limits.max_sessions")).to_have_count(0)


def test_an_alert_comes_with_what_the_runbook_says_to_do(console: ConsolePage) -> None:
    console.go("/alerts")
    console.heading("Alerts")
    alert = console.page.locator("#dragomannoreadynode")
    expect(alert).to_contain_text("There is no node that is ready")
    alert.get_by_text("What to do").click()
    expect(alert).to_contain_text("dragoman nodes list")
    assert console.accessibility_violations() == []


def test_the_api_page_finds_shows_and_tries_routes(console: ConsolePage) -> None:
    console.go("/docs")
    console.heading("API")
    console.page.keyboard.press("/")
    console.page.keyboard.type("get history")
    operation = console.page.locator("summary", has_text="/api/v1/history")
    operation.click()
    console.page.get_by_label("by", exact=True).fill("node")
    console.page.get_by_role("button", name="Try it").click()
    console.shows("200 /api/v1/history?by=node")
    console.page.get_by_text("Answer 200: History").click()
    console.page.get_by_text("began_at", exact=True).first.wait_for()
    assert console.accessibility_violations() == []
    console.page.get_by_role("link", name="Its page").click()
    console.heading("Overview")
