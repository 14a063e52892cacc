"""A microphone as the speech of a session; what records lies outside, and is played here."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from tests.integration.serve.server_process import ServerProcess

from dragoman.errors import CannotStart, ExtraMissing, InvalidMessage
from dragoman.live.protocol import TranslationResult
from dragoman.sdk import SessionClient, talk

OnBlock = Callable[[bytes], None]

BLOCK = b"\x10\x20" * 1600


class Played:
    """Records blocks of a script, from a thread, as a sound card does."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self.started: tuple[int, int] | None = None
        self.all_recorded = threading.Event()
        self.stopped = False
        self._thread: threading.Thread | None = None

    def start(
        self, sample_rate: int, block_samples: int, on_block: Callable[[bytes], None]
    ) -> None:
        self.started = sample_rate, block_samples

        def record() -> None:
            for _ in range(self.blocks):
                on_block(BLOCK)
            self.all_recorded.set()

        self._thread = threading.Thread(target=record)
        self._thread.start()

    def stop(self) -> None:
        assert self._thread is not None
        self._thread.join()
        self.stopped = True


def test_what_is_said_into_a_microphone_becomes_an_utterance(demo: ServerProcess) -> None:
    recorder = Played(12)
    with talk(demo.url, src_lang="en", tgt_lang="es") as session:
        with session.microphone(recorder=recorder):
            recorder.all_recorded.wait()
        assert recorder.stopped
        session.close()
        [result] = session.results()
    assert isinstance(result, TranslationResult)
    assert result.text_asr
    assert recorder.started == (16_000, 1_600)


def test_results_are_read_beside_the_microphone(demo: ServerProcess) -> None:
    async def scenario() -> int:
        async with SessionClient(demo.url, src_lang="en", tgt_lang="es") as session:
            async with session.microphone(recorder=Played(12)):
                # The pause after the last block ends the utterance.
                first = await session.next_result()
                assert isinstance(first, TranslationResult)
            await session.close()
            return len([result async for result in session.results()])

    assert asyncio.run(scenario()) == 0


def test_an_error_in_the_block_stops_the_microphone_and_is_the_one_that_is_told(
    demo: ServerProcess,
) -> None:
    recorder = Played(3)
    with (
        pytest.raises(ZeroDivisionError),
        talk(demo.url, src_lang="en", tgt_lang="es") as session,
        session.microphone(recorder=recorder),
    ):
        raise ZeroDivisionError
    assert recorder.stopped


def test_a_session_of_another_format_has_no_microphone() -> None:
    client = SessionClient("ws://127.0.0.1:1", src_lang="en", tgt_lang="es", audio_format="wav")
    with pytest.raises(InvalidMessage, match="a microphone gives pcm16"):
        client.microphone(recorder=Played(0))


def client() -> SessionClient:
    return SessionClient("ws://127.0.0.1:1", src_lang="en", tgt_lang="es")


def test_without_the_extra_the_command_that_helps_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(ExtraMissing, match=r"pip install 'dragoman\[microphone\]'"):
        client().microphone()


def test_the_machine_s_microphone_is_opened_for_pcm16_of_one_channel(
    monkeypatch: pytest.MonkeyPatch, demo: ServerProcess
) -> None:
    opened: dict[str, Any] = {}
    card: Any = ModuleType("sounddevice")
    card.__spec__ = sys.__spec__

    class PortAudioError(Exception):
        pass

    class RawInputStream:
        def __init__(self, **options: Any) -> None:
            if options["device"] == "broken":
                raise PortAudioError("Invalid device")
            opened.update(options)

        def start(self) -> None:
            for _ in range(5):
                opened["callback"](memoryview(BLOCK), 1600, None, None)

        def stop(self) -> None:
            opened["ended"] = ["stop"]

        def close(self) -> None:
            opened["ended"].append("close")

    card.PortAudioError = PortAudioError
    card.RawInputStream = RawInputStream
    monkeypatch.setitem(sys.modules, "sounddevice", card)
    with talk(demo.url, src_lang="en", tgt_lang="es") as session:
        with session.microphone(device=3):
            pass
        session.close()
        assert len(list(session.results())) == 1
    asked = (opened["samplerate"], opened["channels"], opened["dtype"], opened["device"])
    assert asked == (16_000, 1, "int16", 3)
    assert opened["ended"] == ["stop", "close"]
    with (
        talk(demo.url, src_lang="en", tgt_lang="es") as session,
        pytest.raises(CannotStart, match="Invalid device"),
        session.microphone(device="broken"),
    ):
        raise AssertionError("nothing records")
