"""The site is whole without the internet: scripts, styles, fonts, diagrams and search."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from tests.browser.conftest import CHROMIUM_OPTIONS
from tests.documents.blocks import ROOT, blocks_of, pages
from tests.servers.programs import require_program

PICTURE_BYTES_MAX = 200_000
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b(?=[^>]*rel=["']?(?:stylesheet|preconnect|preload|icon))[^>]*"""
    r"""\bhref=["']?((?:https?:)?//[^"'\s>]+)"""
)
FETCHED_BY_STYLES = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""")
WITH_DIAGRAMS = {
    page.removeprefix("docs/").removesuffix(".md") + "/": diagrams
    for page in pages()
    if (diagrams := sum(block.language == "mermaid" for block in blocks_of(page)))
}
"""The address of each page with diagrams, and how many it has."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"]
    done = subprocess.run(
        [*command, str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves the files of a folder, and writes no log."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    handler = functools.partial(QuietHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=require_program("chromium"), args=CHROMIUM_OPTIONS
        )
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A tab; a request to any other address than the site's fails the test."""
    elsewhere: list[str] = []

    def watch(request: Request) -> None:
        if not request.url.startswith((address, "data:", "blob:")):
            elsewhere.append(request.url)

    opened = browser.new_page()
    opened.on("request", watch)
    yield opened
    opened.close()
    assert elsewhere == []


def test_no_page_fetches_a_script_a_style_a_font_or_a_picture_from_elsewhere(site: Path) -> None:
    found = {
        f"{path.relative_to(site)}: {address}"
        for path in site.rglob("*.html")
        for addresses in FETCHED.findall(path.read_text())
        for address in addresses
        if address
    }
    found |= {
        f"{path.relative_to(site)}: {address}"
        for path in site.rglob("*.css")
        for address in FETCHED_BY_STYLES.findall(path.read_text())
    }
    assert found == set()


def test_addresses_elsewhere_would_be_found() -> None:
    assert FETCHED.search('<script defer src="https://cdn.example/a.js">')
    assert FETCHED.search('<link rel="stylesheet" href="//fonts.example/css">')
    assert FETCHED.search('<link href="https://fonts.example/css" rel=stylesheet>')
    assert FETCHED_BY_STYLES.search("src: url(https://fonts.example/inter.woff2)")
    assert not FETCHED.search('<a href="https://example.org">')


@pytest.mark.parametrize(("path", "diagrams"), WITH_DIAGRAMS.items())
def test_every_diagram_is_drawn(page: Page, address: str, path: str, diagrams: int) -> None:
    page.goto(address + path)
    # The theme draws each one into the closed shadow of a `div`; one that is wrong stays away.
    page.wait_for_function(
        "wanted => { const drawn = [...document.querySelectorAll('div.mermaid')];"
        " return drawn.length === wanted && drawn.every(one => one.clientHeight > 50); }",
        arg=diagrams,
    )


def test_the_landing_page_shows_the_console_in_the_bundled_font(page: Page, address: str) -> None:
    page.goto(address)
    picture = page.get_by_role("img", name=re.compile("console's overview"))
    assert picture.evaluate("picture => picture.decode().then(() => picture.naturalWidth)") == 1280
    assert page.evaluate("document.fonts.ready.then(() => document.fonts.check('16px Inter'))")


def test_the_picture_is_small(site: Path) -> None:
    assert (site / "assets" / "console.webp").stat().st_size < PICTURE_BYTES_MAX


@pytest.mark.parametrize(("query", "title"), [("circuit breaker", "Words"), ("租约", "节点")])
def test_search_finds_english_and_chinese(page: Page, address: str, query: str, title: str) -> None:
    page.goto(address)
    field = page.locator("input.md-search__input")
    found = page.locator(".md-search-result__item", has_text=title).first
    field.click()
    for _ in range(12):
        # What is typed before the page's scripts have begun to listen is lost on them.
        field.fill("")
        field.press_sequentially(query)
        # The search listens to keys; Chinese typed from outside comes without any.
        field.press("End")
        with suppress(PlaywrightTimeout):
            found.wait_for(timeout=5_000)
            break
    assert found.is_visible()
