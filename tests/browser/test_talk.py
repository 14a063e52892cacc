"""The page that talks: texts and speech in, captions, translations and sound out."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Playwright, expect
from tests.browser.conftest import CHROMIUM_OPTIONS
from tests.browser.pages import PATIENCE_MS, ConsolePage
from tests.integration.engines.speech import spoken
from tests.integration.engines.test_end_to_end import local_node
from tests.integration.serve.server_process import (
    DRAGOMAN,
    ServerProcess,
    environment,
    eventually,
)
from tests.servers.programs import require_program

from dragoman.audio import wav_bytes

expect.set_options(timeout=PATIENCE_MS)

# The longest window that an analyser has, so that a page that is late hears it all the same.
WATCH_THE_SOUND = """
const start = AudioBufferSourceNode.prototype.start;
AudioBufferSourceNode.prototype.start = function (...when) {
  const analyser = this.context.createAnalyser();
  analyser.fftSize = 32768;
  this.connect(analyser);
  const samples = new Float32Array(analyser.fftSize);
  const listen = () => {
    analyser.getFloatTimeDomainData(samples);
    if (samples.some((sample) => Math.abs(sample) > 0.001)) window.soundWasHeard = true;
  };
  setInterval(listen, 20);
  this.addEventListener("ended", listen);
  start.apply(this, when);
};
"""

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

LONG_MS = 90_000
"""The words are said again every four seconds; of a busy machine some go unheard."""

WORDS = re.compile(r"[a-z]{2,}")
"""What was said, as far as the recogniser understands it."""

PATIENT = environment(
    DRAGOMAN_SCHEDULER__NODE_HEALTH__RESOURCE_THRESHOLD_PERCENT="0",
    DRAGOMAN_SCHEDULER__JOB_TIMEOUT__PENDING_SECONDS="60",
    DRAGOMAN_SCHEDULER__JOB_TIMEOUT__TOTAL_SECONDS="90",
)
"""Nodes get jobs however busy the machine is with other work."""


@pytest.fixture(scope="module")
def browser(playwright: Playwright, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser whose microphone hears words that are said over and over."""
    words = spoken("good morning my friend", 48_000).padded(1_500)
    recording = tmp_path_factory.mktemp("microphone") / "spoken.wav"
    recording.write_bytes(wav_bytes(words))
    opened = playwright.chromium.launch(
        executable_path=require_program("chromium"),
        args=[
            *CHROMIUM_OPTIONS,
            "--use-fake-ui-for-media-stream",
            "--use-fake-device-for-media-stream",
            f"--use-file-for-fake-audio-capture={recording}",
        ],
    )
    yield opened
    opened.close()


@contextmanager
def simulated_node(server: ServerProcess) -> Iterator[None]:
    languages = ("--asr", "en,es", "--nmt", "en,es,fr", "--tts", "en,es,fr")
    url = server.url.replace("http", "ws")
    command = [str(DRAGOMAN), "node", "--url", url, "--engine", "simulated", *languages]
    node = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
    )
    try:
        eventually(
            lambda: (
                "ready" in [view["status"] for view in server.get("/api/v1/nodes").json()["items"]]
            ),
            "the node is ready",
        )
        yield
    finally:
        node.kill()
        node.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("talk") / "data"
    with ServerProcess(folder, env=PATIENT) as server, simulated_node(server):
        yield server


@pytest.fixture(scope="module")
def local_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose node really recognises, translates and speaks."""
    folder = tmp_path_factory.mktemp("local")
    with ServerProcess(folder / "data", env=PATIENT) as server, local_node(server, folder):
        yield server


def say(console: ConsolePage, text: str) -> None:
    console.page.get_by_label("Write").fill(text)
    console.page.get_by_role("button", name="Send").click()


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


def test_a_pair_that_no_node_serves_is_answered_with_what_is_wrong(
    browser: Browser, server: ServerProcess
) -> None:
    with ConsolePage.opened(browser, server.url) as console:
        console.go("/talk")
        console.page.get_by_label("From").fill("xx")
        say(console, "hello")
        console.page.get_by_role("alert").wait_for()
        console.shows("PAIR_UNSUPPORTED")


def test_two_people_answer_each_other_across_one_phone(
    browser: Browser, server: ServerProcess
) -> None:
    with ConsolePage.opened(browser, server.url, viewport=PHONE) as console:
        console.page.add_init_script(WATCH_THE_TIMES)
        console.go("/talk")
        console.page.get_by_label("Two people").check(force=True)
        near = console.page.get_by_role("region", name="Person 1")
        far = console.page.get_by_role("region", name="Person 2")
        assert "matrix(-1, 0, 0, -1" in far.evaluate("half => getComputedStyle(half).transform")
        assert near.evaluate("half => getComputedStyle(half).transform") == "none"

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


def hears(console: ConsolePage) -> None:
    """Wait until something was recognised and translated; the words come again and again."""
    expect(console.page.locator(".said").filter(has_text=WORDS).first).to_be_visible(
        timeout=LONG_MS
    )
    expect(console.page.locator('[lang="es"]').filter(has_text=WORDS).first).to_be_visible(
        timeout=LONG_MS
    )


def sound_is_heard(console: ConsolePage) -> None:
    eventually(
        lambda: bool(console.page.evaluate("window.soundWasHeard === true")), "sound is heard"
    )


def test_speech_into_a_microphone_is_recognised_translated_and_spoken_also_by_a_server_begun_again(
    browser: Browser, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    with (
        ServerProcess(folder, env=PATIENT) as server,
        local_node(server, tmp_path),
        ConsolePage.opened(browser, server.url, permissions=["microphone"]) as console,
    ):
        console.page.add_init_script(WATCH_THE_SOUND)
        console.go("/talk")
        console.page.get_by_role("button", name="Speak").click()
        hears(console)
        sound_is_heard(console)
        before = console.page.locator('[lang="es"]').count()
        server.process.kill()
        server.wait()
        console.page.get_by_text("The connection was lost").wait_for()
        console.page.evaluate("soundWasHeard = false")
        port = server.url.rpartition(":")[2]
        with ServerProcess(folder, "--port", port, env=PATIENT):
            # The node comes back by itself, and so does the page, which still listens.
            console.page.locator('[lang="es"]').nth(before).wait_for(timeout=LONG_MS)
            sound_is_heard(console)
            console.page.get_by_role("button", name="Stop").click()
            console.page.get_by_role("button", name="Speak").wait_for()
        console.complaints.clear()  # the browser told of the sockets that could not be opened


def test_pauses_may_be_found_by_the_server(browser: Browser, local_server: ServerProcess) -> None:
    with ConsolePage.opened(browser, local_server.url, permissions=["microphone"]) as console:
        sent: list[dict[str, Any]] = []

        def note(frame: str | bytes) -> None:
            sent.append(json.loads(frame))

        console.page.on("websocket", lambda socket: socket.on("framesent", note))
        console.go("/talk")
        console.page.get_by_label("Pauses are found by").select_option("the server")
        assert "pauses=server" in console.page.url
        console.page.get_by_role("button", name="Speak").click()
        hears(console)
        (init,) = [message for message in sent if message["type"] == "session_init"]
        assert init["vad"] == "webrtc"
        chunks = [message for message in sent if message["type"] == "audio_chunk"]
        # All that the microphone heard was sent, silence too, and no end was marked here.
        assert not any(chunk["is_final"] for chunk in chunks)
        assert [chunk["seq"] for chunk in chunks] == list(range(len(chunks)))
        console.page.get_by_role("button", name="Stop").click()
        console.page.get_by_role("button", name="Speak").wait_for()
        eventually(lambda: sent[-1].get("is_final") or sent[-2]["is_final"], "the end is marked")


def test_one_of_two_people_speaks_and_the_other_one_writes(
    browser: Browser, local_server: ServerProcess
) -> None:
    with ConsolePage.opened(browser, local_server.url, permissions=["microphone"]) as console:
        console.page.add_init_script(WATCH_THE_SOUND)
        console.go("/talk?people=2")
        near = console.page.get_by_role("region", name="Person 1")
        far = console.page.get_by_role("region", name="Person 2")
        near.get_by_role("button", name="Speak").click()
        expect(far.locator('[lang="es"]').first).not_to_be_empty(timeout=LONG_MS)
        expect(near.locator(".said").filter(has_text=WORDS).first).to_be_visible(timeout=LONG_MS)
        sound_is_heard(console)
        near.get_by_role("button", name="Stop").click()
        near.get_by_role("button", name="Speak").wait_for()
        far.get_by_label("Write").fill("buenos dias")
        far.get_by_label("Write").press("Enter")
        expect(near.locator('[lang="en"]').first).to_contain_text("good", ignore_case=True)


def test_a_page_that_may_not_use_the_microphone_says_what_to_do(
    playwright: Playwright, server: ServerProcess
) -> None:
    # Without the flag that grants it the browser refuses, as a person does who says no.
    browser = playwright.chromium.launch(
        executable_path=require_program("chromium"), args=CHROMIUM_OPTIONS
    )
    with ConsolePage.opened(browser, server.url) as console:
        console.go("/talk")
        console.page.get_by_role("button", name="Speak").click()
        expect(console.page.get_by_role("alert")).to_contain_text("then press Speak again")
        say(console, "good morning")
        console.page.locator('[lang="es"]').first.wait_for()
    browser.close()


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
