"""A whole demo, with its log as loud as it gets: it tells nothing of what people say."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.integration.quiet_logs.talker import SECRETS, WORDS, Talker, assert_quiet
from tests.integration.serve.server_process import DRAGOMAN, PATIENCE_SECONDS, ServerProcess

from dragoman.api import live_parts, running_server
from dragoman.cli.demo.fleet import LANGUAGES, running_fleet
from dragoman.cli.demo.phrasebook import SENTENCES
from dragoman.cli.demo.traffic import running_traffic
from dragoman.observability import configure_logging
from dragoman.randomness import Randomness
from dragoman.settings import load_settings

TRAFFIC = [sentence for sentences in SENTENCES.values() for sentence in sentences]


def test_a_demo_at_debug_level_writes_nothing_that_was_said(tmp_path: Path) -> None:
    options = ("--seconds", "6", "--nodes", "4", "--real-nodes", "0", "--log-level", "debug")
    with ServerProcess(tmp_path / "data", *options, command=(DRAGOMAN, "demo")) as demo:
        talker = Talker(demo.url)
        talker.type("en", "es")
        talker.speak("en", "es")
        talker.babble()
        body = {"src_lang": "en", "tgt_lang": "es", "text": WORDS, "wait_ms": 5000}
        httpx.post(f"{demo.url}/api/v1/jobs", json=body, timeout=PATIENCE_SECONDS)
        httpx.post(f"{demo.url}/api/v1/jobs", json={"text": WORDS}, timeout=PATIENCE_SECONDS)
        assert demo.wait() == 0
        written = demo.all_output()
    assert "node_registered" in written, "the log is loud"
    assert "utterances delivered" in written, "there was traffic"
    assert len(talker.heard) >= 6
    assert_quiet(written, [*SECRETS, *TRAFFIC, *talker.heard])


class Everything(logging.Handler):
    """Keeps every record in full, as it was before anything was cut out of it."""

    def __init__(self) -> None:
        super().__init__(level=1)
        self.text = io.StringIO()

    def emit(self, record: logging.LogRecord) -> None:
        self.text.write(f"{logging.Formatter().format(record)} {record.__dict__}\n")


@pytest.fixture
def everything(capfd: pytest.CaptureFixture[str]) -> Iterator[Everything]:
    """The log as the program sets it up, on stderr, but with Dragoman's own loggers at level 1."""
    root, own = logging.getLogger(), logging.getLogger("dragoman")
    before = (root.level, own.level, list(root.handlers))
    configure_logging("debug", "console")
    own.setLevel(1)
    handler = Everything()
    root.addHandler(handler)
    yield handler
    root.handlers[:] = before[2]
    root.setLevel(before[0])
    own.setLevel(before[1])


def test_no_record_holds_what_was_said_even_before_it_is_cleaned(
    everything: Everything, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    flags = {"server": {"port": 0, "data_dir": tmp_path}, "log": {"level": "debug"}}
    settings = load_settings(flags=flags, environ={}).settings
    randomness = Randomness(7)

    random = randomness.stream("traffic")

    async def main() -> Talker:
        async with (
            running_server(settings, assemble=live_parts, randomness=randomness) as server,
            running_fleet(server.url.replace("http", "ws", 1), 3, randomness),
            running_traffic(server.url, 20, LANGUAGES[:3], random) as traffic,
        ):
            talker = Talker(server.url)
            for talk in (talker.type, talker.speak):
                await asyncio.to_thread(talk, "en", "es")
            await asyncio.to_thread(talker.babble)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while traffic.tally.delivered < 5:  # noqa: ASYNC110  # a count has no event
                    await asyncio.sleep(0.05)
        return talker

    talker = asyncio.run(main())
    printed = capfd.readouterr()
    written = everything.text.getvalue()
    assert "node_registered" in written
    assert "node_registered" in printed.err
    assert_quiet(written + printed.out + printed.err, [*SECRETS, *TRAFFIC, *talker.heard])
