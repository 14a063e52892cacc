"""Every page of the console: reached by its address, in both themes and languages, by all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from tests.browser.lab_world import SENTENCES, TARGETS, LabCaller, spoken_archive
from tests.browser.pages import ConsolePage
from tests.integration.live_api.manual_node import ManualNode
from tests.integration.serve.server_process import ServerProcess

PAGES = {
    "/": "Overview",
    "/pairs": "Language pairs",
    "/nodes": "Nodes",
    "/nodes?view=cells": "Nodes",
    "/nodes/n-one": "Node n-one",
    "/sessions": "Sessions",
    "/jobs": "Jobs",
    "/talk": "Talk",
    "/talk?people=2": "Talk",
    "/lab": "Lab",
    "/lab/experiments/{experiment}?group=domain": "shown",
    "/lab/experiments/{running}": "running",
    "/lab/experiments/{experiment}/rows?filter=score.exact%20%3C%201": "Rows of shown",
    "/lab/experiments/{experiment}/rows/{item}": "Row {item}",
    "/lab/compare?baseline={experiment}&others={other}": "Compare",
    "/lab/datasets": "Datasets",
    "/lab/datasets/{dataset}": "sentences",
    "/lab/new": "New experiment",
    "/cluster": "Cluster",
    "/audit": "Audit log",
    "/alerts": "Alerts",
    "/settings": "Settings",
    "/docs": "API",
}
"""The title of each page, by its address; what is in braces is known once the lab has it."""

FIRST_PAGE_BYTES = 300_000


@pytest.fixture(scope="module", autouse=True)
def a_node(open_server: ServerProcess) -> Iterator[None]:
    """A fleet of one, so that the pages have something to show."""
    with ManualNode(open_server, ("en", "es"), node_id="n-one"):
        yield


@pytest.fixture(scope="module")
def open_server(lab_server: ServerProcess) -> ServerProcess:
    """A server that has every page."""
    return lab_server


@pytest.fixture(scope="module")
def ids(open_server: ServerProcess) -> dict[str, str]:
    """What the lab has, by the names that stand in addresses."""
    with LabCaller(open_server) as lab:
        imported = lab.import_rows("sentences", SENTENCES)
        lab.import_file("spoken", "spoken.zip", spoken_archive(), audio="recording")
        shown = lab.recorded("shown", imported["version_id"], "first")
        lab.post(f"/experiments/{shown}/runs", {"mode": "retry_all"})
        lab.ended(shown)  # a second run: quality is drawn over time
        other = lab.recorded("other", imported["version_id"], "second")
        letters = lab.import_rows("letters", [{"said": said} for said in "ab"])
        endless = {"kind": "python", "function": f"{TARGETS}:endless_but_a"}
        running = lab.submit("running", letters["version_id"], endless, evaluators=[])
        (row,) = lab.post(f"/experiments/{shown}/results", {"limit": 1})["items"]
    return {
        "dataset": imported["dataset_id"],
        "experiment": shown,
        "other": other,
        "running": running,
        "item": row["item_id"],
    }


def opened(console: ConsolePage, path: str, ids: dict[str, str]) -> None:
    """Open the page, and wait until everything that it asks for is there."""
    console.go(path.format(**ids))
    console.heading(PAGES[path].format(**ids))
    expect(console.page.locator(".mantine-Loader-root")).to_have_count(0)


@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_no_violation_in_either_theme(
    browser: Browser, open_server: ServerProcess, ids: dict[str, str], path: str
) -> None:
    with ConsolePage.opened(browser, open_server.url, color_scheme="light") as console:
        opened(console, path, ids)
        assert console.accessibility_violations() == []
        console.page.emulate_media(color_scheme="dark")
        expect(console.page.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")
        assert console.accessibility_violations() == []


@pytest.mark.parametrize("path", PAGES)
def test_nothing_is_cut_off_at_any_width_of_the_screen(
    browser: Browser, open_server: ServerProcess, ids: dict[str, str], path: str
) -> None:
    # From the smallest: a picture that is drawn again for less room takes a moment.
    smallest = {"width": 360, "height": 800}
    with ConsolePage.opened(browser, open_server.url, viewport=smallest) as console:
        opened(console, path, ids)
        for width in (360, 1280, 2560):
            console.page.set_viewport_size({"width": width, "height": 800})
            assert console.page.evaluate("innerWidth") == width
            assert console.page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_first_page_is_small_and_comes_compressed(console: ConsolePage) -> None:
    with console.page.expect_response("**/assets/index-*.js") as program:
        console.go("/")
    console.heading("Overview")
    assert program.value.all_headers()["content-encoding"] in ("br", "gzip")
    sizes = console.page.evaluate(
        "performance.getEntriesByType('resource')"
        ".filter((entry) => entry.name.includes('/assets/'))"
        ".map((entry) => entry.encodedBodySize)"
    )
    assert 0 < sum(sizes) <= FIRST_PAGE_BYTES


def test_the_interface_is_in_the_language_that_the_reader_chooses(console: ConsolePage) -> None:
    console.go("/")
    console.heading("Overview")
    console.page.get_by_label("Language").select_option("zh")
    console.heading("总览")
    assert console.page.locator("html").get_attribute("lang") == "zh"
    console.page.reload()
    console.heading("总览")


def test_a_reader_can_go_everywhere_by_keyboard_alone(console: ConsolePage) -> None:
    console.go("/")
    console.heading("Overview")
    keyboard = console.page.keyboard
    keyboard.press("Tab")
    assert console.page.evaluate("document.activeElement.textContent") == "Skip to the page"
    keyboard.press("?")
    console.page.get_by_role("dialog", name="Keys").wait_for()
    keyboard.press("Escape")
    console.page.get_by_role("dialog", name="Keys").wait_for(state="detached")
    keyboard.press("Control+k")
    keyboard.type("over")
    console.page.get_by_role("button", name="Overview").wait_for()
    keyboard.press("Enter")
    console.heading("Overview")
