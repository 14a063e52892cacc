"""A real browser, and real servers whose pages it opens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright
from tests.browser.lab_world import lab_environment
from tests.browser.pages import ConsolePage
from tests.integration.serve.server_process import ServerProcess
from tests.servers.programs import require_program

CHROMIUM_OPTIONS = ["--no-sandbox", "--disable-gpu"]


# Of a module and not of the run: while it is open, no other test of the process has an event loop.
@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    opened = playwright.chromium.launch(
        executable_path=require_program("chromium"), args=CHROMIUM_OPTIONS
    )
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server in open mode, without nodes."""
    with ServerProcess(tmp_path_factory.mktemp("console") / "data") as server:
        yield server


@pytest.fixture
def console(browser: Browser, open_server: ServerProcess) -> Iterator[ConsolePage]:
    """A page of that server, in a window of its own; whatever goes wrong in it fails the test."""
    with ConsolePage.opened(browser, open_server.url) as page:
        yield page


@pytest.fixture(scope="module")
def lab_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server in open mode whose lab may call the tests' own functions."""
    folder = tmp_path_factory.mktemp("lab") / "data"
    with ServerProcess(folder, env=lab_environment(), lab=True) as server:
        yield server


@pytest.fixture
def lab_console(browser: Browser, lab_server: ServerProcess) -> Iterator[ConsolePage]:
    """A page of that server, in a window of its own; whatever goes wrong in it fails the test."""
    with ConsolePage.opened(browser, lab_server.url) as page:
        yield page
