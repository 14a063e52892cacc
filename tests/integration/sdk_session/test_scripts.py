"""Sessions over real sockets, from scripts and as the how-to page shows them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.documents.blocks import file_of
from tests.integration.serve.server_process import PATIENCE_SECONDS, ServerProcess

from dragoman.live.protocol import TranslationResult
from dragoman.sdk import Unreachable, talk

ADDRESS = "ws://127.0.0.1:8080"


def test_a_script_without_an_event_loop_talks_and_listens(demo: ServerProcess) -> None:
    with talk(demo.url, src_lang="en", tgt_lang="es") as session:
        assert session.say("hello") == 0
        result = session.next_result()
        assert isinstance(result, TranslationResult)
        assert result.text_translated == "[es, simulated] hello"
        assert session.say("bye") == 1
        session.close()
        assert [result.utterance_index for result in session.results()] == [1]


def test_a_script_feeds_audio(demo: ServerProcess) -> None:
    with talk(demo.url, src_lang="en", tgt_lang="es") as session:
        session.feed(bytes(32_000), final=True)
        result = session.next_result()
        assert isinstance(result, TranslationResult)
        assert result.text_asr


def test_a_script_hears_at_once_that_no_scheduler_is_there() -> None:
    with (
        pytest.raises(Unreachable, match="cannot be reached"),
        talk("ws://127.0.0.1:1", src_lang="en", tgt_lang="es"),
    ):
        raise AssertionError("nothing is open")


def test_the_script_of_the_page_works(demo: ServerProcess, tmp_path: Path) -> None:
    code = file_of("docs/howto/talk-to-it.md", "script.py")
    assert ADDRESS in code
    script = tmp_path / "script.py"
    script.write_text(code.replace(ADDRESS, demo.url))
    done = subprocess.run(
        [sys.executable, script],
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.stdout.splitlines() == [
        "0 [es, simulated] Good morning.",
        "1 [es, simulated] Where is the station?",
    ]
