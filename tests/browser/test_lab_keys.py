"""The lab's pages in keys mode: a viewer sees and does not act, and no tenant sees another's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from tests.browser.lab_world import SENTENCES, LabCaller, jsonl, lab_environment
from tests.browser.pages import PATIENCE_MS, ConsolePage
from tests.browser.signing_in import key_of, sign_in
from tests.integration.serve.server_process import ServerProcess

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def keys_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    env = lab_environment(DRAGOMAN_AUTH__MODE="keys")
    with ServerProcess(tmp_path_factory.mktemp("keys") / "data", env=env, lab=True) as server:
        yield server


@pytest.fixture(scope="module")
def experiment_id(keys_server: ServerProcess) -> str:
    """An experiment of the default tenant."""
    key, _ = key_of(keys_server, "evaluator")
    with LabCaller(keys_server, key) as lab:
        version_id = lab.import_rows("sentences", SENTENCES)["version_id"]
        return lab.recorded("shown", version_id, "first")


def test_a_viewer_reads_everything_of_the_lab_and_has_no_action(
    browser: Browser, keys_server: ServerProcess, experiment_id: str
) -> None:
    with ConsolePage.opened(browser, keys_server.url) as console:
        console.go("/lab")
        sign_in(console, key_of(keys_server, "viewer")[0])
        console.heading("Lab")
        console.complaints.clear()  # the browser tells of each answer that is no success
        buttons = console.page.locator("#main").get_by_role("button")
        main = console.page.locator("#main")
        expect(main.get_by_role("link", name="New experiment")).to_be_hidden()
        main.get_by_role("link", name="shown").click()
        console.heading("shown")
        console.shows("30 of 30")
        expect(buttons).to_have_count(0)
        main.get_by_role("link", name="Rows", exact=True).click()
        console.heading("Rows of shown")
        main.get_by_role("table", name="Rows").get_by_role("link").first.click()
        console.page.get_by_role("heading", name="Row i-", level=1).wait_for()
        console.shows("From the reference to the output")
        expect(console.page.get_by_role("heading", name="What you think of it")).to_be_hidden()
        console.page.keyboard.press("f")
        main.get_by_role("link", name="Datasets").click()
        console.heading("Datasets")
        main.get_by_role("link", name="sentences").click()
        console.heading("sentences")
        console.shows("good morning 0")
        expect(console.page.locator("input[type=file]")).to_have_count(0)
        assert console.page.get_by_role("button", name="Delete").count() == 0
        key, _ = key_of(keys_server, "evaluator")
        with LabCaller(keys_server, key) as lab:
            assert lab.get(f"/experiments/{experiment_id}/annotations")["items"] == []


def test_another_tenant_has_an_empty_lab_that_says_the_next_command_and_no_way_to_the_first(
    browser: Browser, keys_server: ServerProcess, experiment_id: str
) -> None:
    with ConsolePage.opened(browser, keys_server.url) as console:
        console.go("/")
        sign_in(console, key_of(keys_server, "evaluator", "--tenant", "globex")[0])
        console.heading("Lab")
        console.shows("dragoman experiment run experiment.toml")
        assert console.page.get_by_role("link", name="Nodes").count() == 0
        for path in (f"/lab/experiments/{experiment_id}", f"/lab/experiments/{experiment_id}/rows"):
            console.go(path)
            expect(console.page.get_by_role("alert")).to_contain_text("No experiment has the id")
        console.go("/lab/datasets")
        console.shows("dragoman dataset import FILE --name NAME")
        console.complaints.clear()


def test_an_evaluator_who_signed_in_uploads_a_dataset(
    browser: Browser, keys_server: ServerProcess
) -> None:
    with ConsolePage.opened(browser, keys_server.url) as console:
        console.go("/lab/datasets")
        sign_in(console, key_of(keys_server, "evaluator", "--tenant", "initech")[0])
        console.heading("Datasets")
        console.complaints.clear()
        file = {"name": "own.jsonl", "mimeType": "text/plain", "buffer": jsonl([{"said": "a"}])}
        chooser = console.page.locator("input[type=file]")
        chooser.set_input_files(file)  # type: ignore[arg-type]
        console.page.get_by_role("button", name="Upload").click()
        console.heading("own")
