"""Every page of the console: reached by its address, in both themes and languages, by all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, expect
from tests.browser.lab_world import SENTENCES, LabCaller, filled_lab
from tests.browser.page_list import PAGES, WIDTHS
from tests.browser.pages import ConsolePage
from tests.integration.live_api.manual_node import ManualNode, new_pair
from tests.integration.serve.server_process import PATIENCE_SECONDS, ServerProcess
from websockets.sync.client import connect

FIRST_PAGE_BYTES = 300_000


@pytest.fixture(scope="module")
def open_server(lab_server: ServerProcess) -> ServerProcess:
    """A server that has every page."""
    return lab_server


@pytest.fixture(scope="module")
def ids(open_server: ServerProcess) -> Iterator[dict[str, str]]:
    """What the fleet and the lab have, by the names that stand in addresses."""
    pair = new_pair()
    url = open_server.url.replace("http", "ws") + "/ws/session"
    with ManualNode(open_server, pair, node_id="n-one") as node, connect(url) as socket:
        init = {"type": "session_init", "src_lang": pair[0], "tgt_lang": pair[1]}
        socket.send(json.dumps(init))
        session_id = json.loads(socket.recv(PATIENCE_SECONDS))["session_id"]
        socket.send(json.dumps({"type": "utterance", "utterance_index": 0, "text": "a word"}))
        job = node.take()
        node.accept(job)
        node.succeed(job, text_translated="una palabra", timings={"nmt_ms": 12})
        with LabCaller(open_server) as lab:
            in_lab = filled_lab(lab, SENTENCES)
        yield {**in_lab, "node": "n-one", "session": session_id, "job": job["job_id"]}


def opened(console: ConsolePage, name: str, ids: dict[str, str]) -> None:
    """Open the page, and wait until everything that it asks for is there."""
    console.go(PAGES[name].path.format(**ids))
    title = PAGES[name].title.format(**ids)
    console.heading(title)
    expect(console.page).to_have_title(f"{title} · Dragoman")
    expect(console.page.locator(".mantine-Loader-root")).to_have_count(0)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_sound_in_both_themes_and_at_every_width_of_the_screen(
    browser: Browser, open_server: ServerProcess, ids: dict[str, str], name: str
) -> None:
    # From the smallest: a picture that is drawn again for less room takes a moment.
    size, scheme = {"width": WIDTHS[0], "height": 800}, "light"
    with ConsolePage.opened(
        browser, open_server.url, viewport=size, color_scheme=scheme
    ) as console:
        opened(console, name, ids)
        for width in WIDTHS:
            console.page.set_viewport_size({"width": width, "height": 800})
            assert console.page.evaluate("innerWidth") == width
            # Nothing is cut off, and nothing lies upon a control.
            assert console.page.evaluate("document.documentElement.scrollWidth") <= width
            assert console.covered() == []
            assert console.cut_labels() == []
        assert console.accessibility_violations() == []
        console.page.emulate_media(color_scheme="dark")
        expect(console.page.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")
        assert console.accessibility_violations() == []


OUTSIDE = """
() => [...document.querySelectorAll("header a, header button, header select")].filter((control) => {
  if (!control.checkVisibility() || control.matches(".skip-link")) return false;
  const { left, right } = control.getBoundingClientRect();
  return left < 8 || right > document.documentElement.clientWidth - 8;
}).map((control) => control.outerHTML.slice(0, 120))
"""


@pytest.mark.parametrize("width", [320, 360, 640])
def test_the_controls_in_the_head_of_a_page_are_all_in_sight(
    browser: Browser, open_server: ServerProcess, width: int
) -> None:
    size = {"width": width, "height": 640}
    with ConsolePage.opened(browser, open_server.url, viewport=size) as console:
        console.go("/")
        console.heading("Overview")
        for language, title in (("zh", "总览"), ("en", "Overview")):
            console.page.locator("header select").select_option(language)
            console.heading(title)
            assert console.page.evaluate(OUTSIDE) == []
            assert console.page.evaluate("document.documentElement.scrollWidth") <= width


def test_ids_in_tables_stay_in_one_line_on_a_phone(
    browser: Browser, open_server: ServerProcess, ids: dict[str, str]
) -> None:
    size = {"width": 360, "height": 800}
    with ConsolePage.opened(browser, open_server.url, viewport=size) as console:
        for name, thing in (("sessions", "session"), ("jobs", "job")):
            opened(console, name, ids)
            link = console.page.get_by_role("link", name=ids[thing])
            assert link.evaluate("one => one.getClientRects().length") == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dialogs_are_sound_in_both_themes(
    browser: Browser,
    open_server: ServerProcess,
    ids: dict[str, str],
    scheme: Literal["light", "dark"],
) -> None:
    with ConsolePage.opened(browser, open_server.url, color_scheme=scheme) as console:
        opened(console, "node", ids)
        keyboard = console.page.keyboard
        dialogs = {"Keys": "?", "Go to a page": "Control+k"}
        for name, key in dialogs.items():
            keyboard.press(key)
            dialog = console.page.get_by_role("dialog", name=name)
            expect(dialog).to_have_css("opacity", "1")
            assert console.accessibility_violations() == []
            keyboard.press("Escape")
            expect(dialog).to_be_hidden()
        console.page.get_by_role("button", name="Shut down").click()
        expect(console.page.get_by_role("dialog", name="Shut down")).to_have_css("opacity", "1")
        assert console.accessibility_violations() == []


def test_single_keys_are_listed_and_can_be_switched_off(
    console: ConsolePage, ids: dict[str, str]
) -> None:
    opened(console, "row", ids)
    keyboard = console.page.keyboard
    keyboard.press("?")
    keys = console.page.get_by_role("dialog", name="Keys")
    expect(keys.get_by_role("row").filter(has_text="Pass")).to_contain_text("p")
    expect(keys.get_by_role("row").filter(has_text="Score")).to_contain_text("12345")
    console.page.get_by_label("Single keys work").press("Space")
    keyboard.press("Escape")
    expect(keys).to_be_hidden()
    console.page.reload()
    opened(console, "row", ids)
    judged = console.page.get_by_role("button", name="Pass")
    for key in "p?":
        keyboard.press(key)
    keyboard.press("Control+k")
    expect(console.page.get_by_role("textbox", name="Go to a page")).to_be_focused()
    keyboard.type("keys")
    keyboard.press("Enter")
    keys.wait_for()
    expect(judged).to_have_attribute("aria-pressed", "false")
    console.page.get_by_label("Single keys work").press("Space")
    keyboard.press("Escape")
    expect(keys).to_be_hidden()
    keyboard.press("p")
    expect(judged).to_have_attribute("aria-pressed", "true")


def test_the_palette_has_every_page_and_command_and_finds_nodes_and_experiments(
    console: ConsolePage, ids: dict[str, str]
) -> None:
    console.go("/alerts")
    console.heading("Alerts")
    keyboard = console.page.keyboard
    html = console.page.locator("html")

    def type_into_palette(words: str) -> None:
        expect(console.page.get_by_role("dialog")).to_be_hidden()
        keyboard.press("Control+k")
        expect(console.page.get_by_role("dialog").get_by_role("textbox")).to_be_focused()
        keyboard.type(words)

    for typed, label in (
        ("data", "Datasets"),
        ("new exp", "New experiment"),
        ("compare", "Compare"),
        ("api", "API"),
        ("n-one", "Node n-one"),
        ("running", "Experiment running"),
    ):
        type_into_palette(typed)
        chosen = console.page.locator(".mantine-Spotlight-action[data-selected]")
        expect(chosen).to_have_text(label)
        keyboard.press("Enter")
        console.heading(label.removeprefix("Experiment "))
    type_into_palette("dark")
    keyboard.press("Enter")
    expect(html).to_have_attribute("data-mantine-color-scheme", "dark")
    type_into_palette("中文")
    keyboard.press("Enter")
    expect(html).to_have_attribute("lang", "zh")


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
    choose(console, "sess", "Sessions")
    console.tab_to("Nodes")
    keyboard.press("Enter")
    console.heading("Nodes")
    console.tab_to("Use the dark theme")
    keyboard.press("Enter")
    html = console.page.locator("html")
    expect(html).to_have_attribute("data-mantine-color-scheme", "dark")
    # Where there is nothing to search, the palette opens, which finds every page.
    console.go("/alerts")
    console.heading("Alerts")
    expect(html).to_have_attribute("data-mantine-color-scheme", "dark")
    keyboard.press("/")
    choose(console, "sett", "Settings")


def choose(console: ConsolePage, typed: str, page: str) -> None:
    """Type some letters of a page's name into the palette, and go there."""
    expect(console.page.get_by_role("textbox", name="Go to a page")).to_be_focused()
    console.page.keyboard.type(typed)
    chosen = console.page.locator(".mantine-Spotlight-action[data-selected]")
    expect(chosen).to_have_text(page)
    console.page.keyboard.press("Enter")
    console.heading(page)
