"""The page that talks: texts in, captions, translations and sound out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright, expect
from tests.browser.conftest import CHROMIUM_OPTIONS
from tests.browser.pages import PATIENCE_MS, ConsolePage
from tests.browser.signing_in import key_of, sign_in
from tests.browser.talking import PATIENT, WATCH_THE_SOUND, say, simulated_node, sound_is_heard
from tests.integration.serve.server_process import DRAGOMAN, ServerProcess, eventually
from tests.servers.programs import require_program

expect.set_options(timeout=PATIENCE_MS)

# When each piece of speech begins and ends, in the order in which it was given to the speaker.
WATCH_THE_TIMES = """
window.played = [];
const start = AudioBufferSourceNode.prototype.start;
AudioBufferSourceNode.prototype.start = function (...when) {
  window.played.push([when[0] ?? 0, (when[0] ?? 0) + this.buffer.duration]);
  start.apply(this, when);
};
"""

PHONE = {"width": 360, "height": 800}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("talk") / "data"
    with ServerProcess(folder, env=PATIENT) as server, simulated_node(server):
        yield server


def test_a_text_is_translated_and_spoken(browser: Browser, server: ServerProcess) -> None:
    with ConsolePage.opened(browser, server.url) as console:
        console.page.add_init_script(WATCH_THE_SOUND)
        console.go("/talk")
        console.heading("Talk")
        say(console, "good morning <b>all</b>")
        console.shows("good morning <b>all</b>")
        console.page.locator('[lang="es"]').first.wait_for()
        sound_is_heard(console)
        with console.page.expect_download() as download:
            console.page.get_by_role("button", name="Download as TXT").click()
        saved = Path(download.value.path()).read_text(encoding="utf-8")
        assert saved.startswith("good morning <b>all</b>\n")
        assert console.accessibility_violations() == []


def test_a_conversation_in_several_languages_is_saved_as_subtitles_and_as_json(
    browser: Browser, server: ServerProcess
) -> None:
    with ConsolePage.opened(browser, server.url) as console:
        console.go("/talk?from=en&to=es,fr")
        for count, said in enumerate(("good morning", "my friend"), 1):
            say(console, said)
            for language in ("es", "fr"):
                expect(console.page.locator(f'[lang="{language}"]')).to_have_count(count)
        subtitles = saved_as(console, "SRT")
        assert re.match(r"1\n00:00:0\d,\d{3} --> 00:\d\d:\d\d,\d{3}\ngood morning\n", subtitles)
        assert re.search(r"\n\n2\n00:.* --> .*\nmy friend\n", subtitles)
        lines = json.loads(saved_as(console, "JSON"))
        assert [line["said"] for line in lines] == ["good morning", "my friend"]
        assert all({*line["translations"]} == {"es", "fr"} for line in lines)


def saved_as(console: ConsolePage, form: str) -> str:
    """The conversation as the page saves it."""
    with console.page.expect_download() as download:
        console.page.get_by_role("button", name=f"Download as {form}").click()
    assert download.value.suggested_filename == f"conversation.{form.lower()}"
    return Path(download.value.path()).read_text(encoding="utf-8")


def test_the_page_talks_through_the_simulated_fleet_of_the_demo(
    browser: Browser, tmp_path: Path
) -> None:
    options = ("--nodes", "3", "--real-nodes", "0", "--traffic", "1")
    with (
        ServerProcess(tmp_path / "data", *options, command=(DRAGOMAN, "demo"), env=PATIENT) as demo,
        ConsolePage.opened(browser, demo.url) as console,
    ):
        console.page.add_init_script(WATCH_THE_SOUND)
        console.go("/talk?from=en&to=zh")
        say(console, "good morning")
        expect(console.page.locator('[lang="zh"]').first).not_to_be_empty()
        sound_is_heard(console)


def test_over_plain_http_the_page_says_how_to_get_a_microphone_and_takes_texts(
    playwright: Playwright, tmp_path: Path
) -> None:
    # Any name but localhost is a machine elsewhere to the browser.
    name = "console.test"
    far = f"--host-resolver-rules=MAP {name} 127.0.0.1"
    env = {**PATIENT, "DRAGOMAN_SERVER__ALLOWED_ORIGINS": f"http://{name}"}
    with (
        playwright.chromium.launch(
            executable_path=require_program("chromium"), args=[*CHROMIUM_OPTIONS, far]
        ) as chromium,
        ServerProcess(tmp_path / "data", env=env) as server,
        simulated_node(server),
        ConsolePage.opened(chromium, server.url.replace("127.0.0.1", name)) as console,
    ):
        console.go("/talk")
        console.shows("dragoman serve --self-signed")
        expect(console.page.get_by_role("button", name="Speak")).to_have_count(0)
        say(console, "good morning")
        console.page.locator('[lang="es"]').first.wait_for()
        console.complaints.clear()  # the browser tells that it trusts no page over plain HTTP


def test_a_pair_that_no_node_serves_is_answered_with_what_is_wrong(
    browser: Browser, server: ServerProcess
) -> None:
    with ConsolePage.opened(browser, server.url) as console:
        console.go("/talk")
        console.page.get_by_label("From").fill("xx")
        say(console, "hello")
        alert = console.page.get_by_role("alert")
        expect(alert).to_contain_text("No node of this server translates from xx to Spanish (es)")
        expect(alert).to_contain_text("Served are: English (en), Spanish (es), French (fr).")
        expect(console.page.get_by_text("es: not translated (PAIR_UNSUPPORTED)")).to_be_visible()
        assert console.accessibility_violations() == []
        console.page.locator("header").get_by_label("Language").select_option("zh")
        expect(alert).to_contain_text("此服务器没有节点能将xx翻译成西班牙语 (es)")


def test_a_server_that_shuts_down_is_told_apart_from_a_connection_that_was_lost(
    browser: Browser, tmp_path: Path
) -> None:
    with (
        ServerProcess(tmp_path / "data", env=PATIENT) as server,
        ConsolePage.opened(browser, server.url) as console,
    ):
        with simulated_node(server):
            console.go("/talk")
            say(console, "good morning")
            console.page.locator('[lang="es"]').first.wait_for()
        server.signal()
        console.shows("The server is shutting down. What you say is kept here")
        server.wait()
        console.complaints.clear()  # the browser told of the sockets that could not be opened


def add_target(console: ConsolePage, typed: str) -> None:
    console.page.get_by_role("combobox", name="To").fill(typed)
    console.page.get_by_role("combobox", name="To").press("Enter")


def test_languages_are_suggested_by_name_any_other_is_typed_and_the_address_has_them(
    browser: Browser, server: ServerProcess
) -> None:
    with ConsolePage.opened(browser, server.url) as console:
        console.go("/talk")
        # What the node serves is suggested, by names that the reader knows.
        console.page.get_by_role("combobox", name="To").fill("fren")
        console.page.get_by_role("option", name="French (fr)").click()
        add_target(console, "tlh")
        expect(console.page).to_have_url(f"{server.url}/talk?from=en&to=es%2Cfr%2Ctlh")
        console.page.get_by_role("button", name="Remove Spanish (es)").click()
        say(console, "good morning")
        console.page.locator('[lang="fr"]').first.wait_for()
        console.shows("PAIR_UNSUPPORTED")
        assert console.accessibility_violations() == []
        console.page.reload()
        expect(console.page.get_by_text("French (fr)")).to_be_visible()
        expect(console.page.get_by_text("Spanish (es)")).to_be_hidden()
        console.go("/talk?people=2&from=zh&to=fr")
        near = console.page.get_by_role("region", name="Person 1")
        expect(near.get_by_label("Language")).to_have_value("zh")
        expect(near.get_by_text("Chinese", exact=True)).to_be_visible()


def test_nothing_is_sent_before_its_languages_are_named(
    browser: Browser, server: ServerProcess
) -> None:
    with ConsolePage.opened(browser, server.url) as console:
        console.go("/talk")
        console.page.get_by_label("From").fill("")
        console.page.get_by_label("Write").fill("hello")
        expect(console.page.get_by_role("button", name="Send")).to_be_disabled()
        expect(console.page.get_by_role("button", name="Speak")).to_be_disabled()
        expect(console.page.get_by_text("Name a language by its tag")).to_be_visible()
        assert console.accessibility_violations() == []
        console.page.get_by_label("From").fill("en")
        expect(console.page.get_by_role("button", name="Send")).to_be_enabled()


def test_who_signed_in_with_a_client_key_talks_in_languages_that_are_typed(
    browser: Browser, tmp_path: Path
) -> None:
    env = {**PATIENT, "DRAGOMAN_AUTH__MODE": "keys"}
    with ServerProcess(tmp_path / "data", env=env) as server:
        client, node, reader = (key_of(server, role)[0] for role in ("client", "node", "viewer"))
        with (
            simulated_node(server, token=node, reader=reader),
            ConsolePage.opened(browser, server.url) as console,
        ):
            console.go("/talk")
            sign_in(console, client)
            console.heading("Talk")
            console.complaints.clear()  # of the answer that asked to sign in
            add_target(console, "fr")
            say(console, "good morning")
            console.page.locator('[lang="es"]').first.wait_for()
            console.page.locator('[lang="fr"]').first.wait_for()
            assert console.accessibility_violations() == []


def test_two_people_answer_each_other_across_one_phone(
    browser: Browser, server: ServerProcess
) -> None:
    with ConsolePage.opened(browser, server.url, viewport=PHONE) as console:
        console.page.add_init_script(WATCH_THE_TIMES)
        console.go("/talk")
        # The address changes first, and the switch with it.
        switch = console.page.get_by_role("switch", name="Two people")
        switch.click(force=True)
        expect(switch).to_be_checked()
        near = console.page.get_by_role("region", name="Person 1")
        far = console.page.get_by_role("region", name="Person 2")
        assert "matrix(-1, 0, 0, -1" in far.evaluate("half => getComputedStyle(half).transform")
        assert near.evaluate("half => getComputedStyle(half).transform") == "none"
        for half in (near, far):
            meter = half.locator(".mantine-Progress-root").bounding_box()
            assert meter is not None
            assert meter["width"] >= 40
            assert meter["height"] > 0

        near.get_by_label("Write").fill("good morning <i>there</i>")
        near.get_by_role("button", name="Send").click()
        expect(far.locator('[lang="es"]')).to_contain_text("good morning <i>there</i>")
        expect(near.get_by_text("good morning <i>there</i>")).to_be_visible()
        far.get_by_label("Write").fill("muy buenos dias")
        far.get_by_label("Write").press("Enter")
        expect(near.locator('[lang="en"]')).to_contain_text("muy buenos dias")
        near.get_by_label("Write").fill("one after the other")
        near.get_by_label("Write").press("Enter")
        expect(far.locator('[lang="es"]')).to_have_count(2)

        views = server.get("/api/v1/sessions").json()["items"]
        pairs = {(view["src_lang"], *view["tgt_langs"]) for view in views}
        assert {("en", "es"), ("es", "en")} <= pairs
        eventually(lambda: len(console.page.evaluate("played")) == 3, "three pieces are played")
        played = console.page.evaluate("played")
        assert all(before[1] <= after[0] for before, after in pairwise(played))
        with console.page.expect_download() as download:
            console.page.get_by_role("button", name="Download as TXT").click()
        saved = Path(download.value.path()).read_text(encoding="utf-8")
        assert saved.index("good morning") < saved.index("muy buenos") < saved.index("one after")
        assert console.accessibility_violations() == []
        console.page.emulate_media(color_scheme="dark")
        assert console.accessibility_violations() == []


def test_a_page_that_may_not_use_the_microphone_says_what_to_do(
    browser: Browser, server: ServerProcess
) -> None:
    # Without a flag that grants it the browser refuses, as a person does who says no.
    with ConsolePage.opened(browser, server.url) as console:
        console.go("/talk")
        console.page.get_by_role("button", name="Speak").click()
        expect(console.page.get_by_role("alert")).to_contain_text("then press Speak again")
        say(console, "good morning")
        console.page.locator('[lang="es"]').first.wait_for()


def test_a_conversation_goes_on_after_the_server_was_killed_and_started_again(
    browser: Browser, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    with (
        ServerProcess(folder, env=PATIENT) as server,
        ConsolePage.opened(browser, server.url) as console,
    ):
        console.go("/talk")
        # What was said meanwhile may be sent before the node is back, and is then answered without.
        answers = console.page.locator(".number", has_text=re.compile(r"^es\b"))
        with simulated_node(server):
            say(console, "before")
            expect(answers).to_have_count(1)
        server.process.kill()
        server.wait()
        console.page.get_by_text("The connection was lost").wait_for()
        say(console, "meanwhile")
        port = server.url.rpartition(":")[2]
        restarted = ServerProcess(folder, "--port", port, env=PATIENT)
        with restarted as again, simulated_node(again):
            expect(answers).to_have_count(2)
            say(console, "after")
            expect(answers).to_have_count(3)
        console.complaints.clear()  # the browser told of the sockets that could not be opened
