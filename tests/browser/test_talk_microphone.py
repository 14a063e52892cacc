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
from tests.integration.serve.server_process import ServerProcess, eventually
from tests.servers.programs import require_program

from dragoman.audio import wav_bytes

expect.set_options(timeout=PATIENCE_MS)

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
