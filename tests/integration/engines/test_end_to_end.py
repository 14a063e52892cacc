"""Speech through a real server to a real node, and back: everything is what the tools say."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.integration.engines.speech import (
    heard_by_itself,
    is_silent,
    spoken,
    translated_by_itself,
)
from tests.integration.serve.server_process import DRAGOMAN, ServerProcess, environment, run

from dragoman.audio import read_wav, wav_bytes
from dragoman.live.protocol import TranslationResult
from dragoman.sdk import SessionClient

SENTENCES = (
    "good morning my friend",
    "the house is very big",
    "we have a lot of time",
    "he was in the city yesterday",
    "the water is cold today",
)
PATIENT = """
[scheduler.job_timeout]
pending_seconds = 110
run_seconds = 60
total_seconds = 120
[scheduler.node_health]
resource_threshold_percent = 0
"""
"""One small node hears all sentences one after the other, on a machine that does other work too."""

PADDING_MS = 280
"""What the scheduler asks a node to add after an utterance that its speaker ended."""


@contextmanager
def local_node(server: ServerProcess, folder: Path) -> Iterator[None]:
    """A node with the engine `local`, ready for jobs inside the block."""
    log = folder / "node.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [DRAGOMAN, "node", "--url", server.url.replace("http", "ws"), "--engine", "local"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment(PYTHONUNBUFFERED="1"),
        )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "ready for jobs" in line:
                break
        else:
            raise AssertionError(f"the node is not ready: {log.read_text()}")
        yield
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 0, log.read_text()
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("fleet")
    settings = folder / "settings.toml"
    settings.write_text(PATIENT)
    server = ServerProcess(folder / "data", "--config", settings)
    with server, local_node(server, folder):
        yield server


def test_every_sentence_comes_back_in_order_as_the_tools_say_it(fleet: ServerProcess) -> None:
    async def conversation() -> list[TranslationResult]:
        async with SessionClient(fleet.url, src_lang="en", tgt_lang="es") as session:
            for sentence in SENTENCES:
                samples = spoken(sentence).samples
                for start in range(0, len(samples), 3_200):
                    await session.feed(samples[start : start + 3_200])
                await session.feed(b"", final=True)
            await session.close()
            results = [result async for result in session.results()]
        assert all(isinstance(result, TranslationResult) for result in results), results
        return [result for result in results if isinstance(result, TranslationResult)]

    results = asyncio.run(conversation())
    assert [result.utterance_index for result in results] == list(range(len(SENTENCES)))
    for sentence, result in zip(SENTENCES, results, strict=True):
        assert result.text_asr == heard_by_itself(spoken(sentence).padded(PADDING_MS))
        assert result.text_asr
        assert result.text_translated == translated_by_itself(result.text_asr)
        assert not is_silent(read_wav(result.tts_audio or b""))
        assert result.timings is not None
        assert result.timings.asr_ms
    differing = [r for r in results if r.text_translated != r.text_asr]
    assert len(differing) == len(SENTENCES)


def test_say_answers_with_what_was_really_said(fleet: ServerProcess, tmp_path: Path) -> None:
    recording, answer = tmp_path / "hello.wav", tmp_path / "hola.wav"
    sound = spoken(SENTENCES[0], 22_050)
    recording.write_bytes(wav_bytes(sound))
    flags = ("--from", "en", "--to", "es", "--url", fleet.url, "--out", str(answer))
    code, told, errors = run("say", recording, *flags)
    assert code == 0, errors
    heard = re.search(r"^heard +(.*)$", told, re.MULTILINE)
    said = re.search(r"^es +(.*)$", told, re.MULTILINE)
    assert heard is not None
    assert said is not None
    assert heard[1] == heard_by_itself(spoken(SENTENCES[0]))
    assert said[1] == translated_by_itself(heard[1])
    assert "simulated" not in told
    assert not is_silent(read_wav(answer.read_bytes()))
