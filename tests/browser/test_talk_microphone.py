"""The page that talks, with a microphone: words that espeak-ng says, recognised by pocketsphinx."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Playwright, expect
from tests.browser.conftest import CHROMIUM_OPTIONS
from tests.browser.pages import PATIENCE_MS, ConsolePage
from tests.browser.talking import PATIENT, WATCH_THE_SOUND, sound_is_heard
from tests.integration.engines.speech import spoken
from tests.integration.engines.test_end_to_end import local_node
from tests.integration.live_api.manual_node import ManualNode, attempt_of
from tests.integration.serve.server_process import ServerProcess, eventually
from tests.servers.programs import require_program

from dragoman.audio import wav_bytes

expect.set_options(timeout=PATIENCE_MS)

# The microphone is slow to open, as where a browser asks its user first. Its tracks, and all that
# the page sends, are remembered.
SLOW_MICROPHONE = """
window.tracks = [];
const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
navigator.mediaDevices.getUserMedia = async (asked) => {
  await new Promise((resolve) => setTimeout(resolve, 1500));
  const stream = await open(asked);
  window.tracks.push(...stream.getTracks());
  return stream;
};
window.sent = [];
const send = WebSocket.prototype.send;
WebSocket.prototype.send = function (message) {
  window.sent.push(JSON.parse(message));
  send.call(this, message);
};
"""

STATES_OF_TRACKS = "window.tracks.map((track) => track.readyState)"

LONG_MS = 90_000
"""The words are said again every four seconds; of a busy machine some go unheard."""

WORDS = re.compile(r"[a-z]{2,}")
"""What was said, as far as the recogniser understands it."""


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


@pytest.fixture(scope="module")
def local_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose node really recognises, translates and speaks."""
    folder = tmp_path_factory.mktemp("local")
    with ServerProcess(folder / "data", env=PATIENT) as server, local_node(server, folder):
        yield server


def hears(console: ConsolePage) -> None:
    """Wait until something was recognised and translated; the words come again and again."""
    expect(console.page.locator(".said").filter(has_text=WORDS).first).to_be_visible(
        timeout=LONG_MS
    )
    expect(console.page.locator('[lang="es"]').filter(has_text=WORDS).first).to_be_visible(
        timeout=LONG_MS
    )


def test_speech_into_a_microphone_is_recognised_translated_and_spoken_also_by_a_server_begun_again(
    browser: Browser, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    with (
        ServerProcess(folder, env=PATIENT) as server,
        ExitStack() as node,
        ConsolePage.opened(browser, server.url, permissions=["microphone"]) as console,
    ):
        node.enter_context(local_node(server, tmp_path))
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
            node.close()  # while there is a server that it can leave
        console.complaints.clear()  # the browser told of the sockets that could not be opened


@pytest.fixture
def talking(browser: Browser, open_server: ServerProcess) -> Iterator[ConsolePage]:
    """A page that talks to a server without nodes; its microphone is slow."""
    with ConsolePage.opened(browser, open_server.url, permissions=["microphone"]) as console:
        console.page.add_init_script(SLOW_MICROPHONE)
        console.go("/talk")
        console.heading("Talk")
        yield console


def tracks(console: ConsolePage) -> list[str]:
    """The state of every microphone that the page was given so far."""
    found: list[str] = console.page.evaluate(STATES_OF_TRACKS)
    return found


def test_a_microphone_that_opens_after_its_page_was_left_is_closed_and_not_heard(
    talking: ConsolePage,
) -> None:
    talking.page.get_by_role("button", name="Speak").click()
    talking.page.get_by_role("link", name="Nodes").click()
    talking.heading("Nodes")
    eventually(lambda: tracks(talking) == ["ended"], "the microphone is given, and closed")
    assert talking.page.evaluate("sent.filter(({type}) => type === 'session_init')") == []


def test_speak_that_is_pressed_twice_opens_one_microphone_which_stop_closes(
    talking: ConsolePage,
) -> None:
    talking.page.get_by_role("button", name="Speak").dblclick()
    talking.page.get_by_role("button", name="Stop").click()
    expect(talking.page.get_by_role("button", name="Speak")).to_be_enabled()
    assert tracks(talking) == ["ended"]


def test_stop_stops_also_after_the_language_was_changed(talking: ConsolePage) -> None:
    def is_spoken_in(language: str) -> None:
        languages = "sent.flatMap(({src_lang}) => src_lang ?? [])"
        eventually(
            lambda: talking.page.evaluate(languages)[-1:] == [language], f"it hears {language}"
        )

    talking.page.get_by_role("button", name="Speak").click()
    is_spoken_in("en")
    talking.page.get_by_label("From").fill("fr")
    is_spoken_in("fr")
    talking.page.get_by_role("button", name="Stop").click()
    expect(talking.page.get_by_role("button", name="Speak")).to_be_enabled()
    assert tracks(talking) == ["ended"]


def test_what_is_said_is_grey_while_it_may_change_and_black_when_it_is_settled(
    browser: Browser, open_server: ServerProcess
) -> None:
    with (
        ManualNode(open_server, ("en", "es", "fr"), slots=2) as node,
        ConsolePage.opened(browser, open_server.url, permissions=["microphone"]) as console,
    ):
        console.go("/talk?from=en&to=es,fr")
        console.page.get_by_role("button", name="Speak").click()
        first, second = node.take(), node.take()
        console.page.get_by_role("button", name="Stop").click()
        jobs = {job["tgt_lang"]: job for job in (first, second)}
        for job in jobs.values():
            node.accept(job)
        partial = attempt_of(jobs["es"])
        node.say(type="job_partial", text="good mor", is_final=False, **partial)
        said = console.page.locator(".said").first
        expect(said).to_have_text("good mor")
        expect(said).to_have_css("font-style", "italic")
        grey = said.evaluate("line => getComputedStyle(line).color")
        node.succeed(jobs["es"], text_asr="good morning", text_translated="buenos dias")
        expect(said).to_have_text("good morning")
        expect(said).to_have_css("font-style", "normal")
        assert said.evaluate("line => getComputedStyle(line).color") != grey
        node.succeed(jobs["fr"], text_asr="good morning", text_translated="bonjour")
        expect(console.page.locator('[lang="es"]')).to_have_text("buenos dias")
        expect(console.page.locator('[lang="fr"]')).to_have_text("bonjour")


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
