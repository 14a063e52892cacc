"""The audit log in the console: what was done is shown, found, and named in both languages."""

from __future__ import annotations

import httpx
from playwright.sync_api import expect
from tests.browser.lab_world import MARKUP
from tests.browser.pages import ConsolePage
from tests.integration.serve.server_process import ServerProcess


def test_a_reader_finds_what_was_done_and_how_it_ended(
    open_server: ServerProcess, console: ConsolePage
) -> None:
    api = f"{open_server.url}/api/v1"
    term = {"src_lang": "en", "term": "slot"}
    httpx.put(f"{api}/glossary", json={"items": [term]}, timeout=60).raise_for_status()
    httpx.post(f"{api}/nodes/n-gone/drain", json={"reason": f"too hot {MARKUP}"}, timeout=60)
    console.go("/audit")
    console.heading("Audit log")
    rows = console.page.get_by_role("row")
    drain = rows.filter(has_text="n-gone")
    expect(drain).to_contain_text("node.drain")
    expect(drain).to_contain_text("Refused")
    expect(drain).to_contain_text(f"too hot {MARKUP}")
    assert console.page.locator("img").count() == 0
    expect(rows.filter(has_text="glossary.set")).to_contain_text("Done")
    assert console.accessibility_violations() == []
    console.page.get_by_label("Subject").fill("n-gone")
    console.page.get_by_role("button", name="Apply").click()
    expect(rows.filter(has_text="glossary.set")).to_have_count(0)
    expect(drain).to_have_count(1)
    console.page.get_by_label("Language").select_option("zh")
    console.heading("审计日志")
    expect(drain).to_contain_text("被拒绝")
