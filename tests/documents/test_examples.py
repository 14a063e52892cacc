"""Every example does what it says, with the real espeak-ng, a real server and a real pytest."""

from __future__ import annotations

import array
import os
import shutil
import subprocess
import sys
import wave
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.documents.blocks import ROOT
from tests.documents.sandbox import PATIENCE_SECONDS
from tests.integration.serve.server_process import ServerProcess, environment, eventually

EXAMPLES = ROOT / "examples"
BIN = Path(sys.executable).parent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the examples, for the files that they write."""
    return Path(shutil.copytree(EXAMPLES, tmp_path / "examples"))


@pytest.fixture
def espeak_node(folder: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server with the example's node, ready for jobs."""
    if shutil.which("espeak-ng") is None:
        if os.environ.get("CI"):
            pytest.fail("espeak-ng is not installed")
        pytest.skip("espeak-ng is not installed")
    with ServerProcess(tmp_path / "data") as server:
        command: list[str | Path] = [
            sys.executable,
            folder / "espeak_node.py",
            server.url.replace("http", "ws"),
        ]
        with subprocess.Popen(command, env=environment()) as node:
            try:
                eventually(
                    lambda: (
                        [node["status"] for node in server.get("/api/v1/nodes").json()["items"]]
                        == ["ready"]
                    ),
                    "the node is ready",
                )
                yield server
                node.terminate()
                assert node.wait(timeout=PATIENCE_SECONDS) == 0
            finally:
                node.kill()


def run(*command: str | Path, folder: Path) -> str:
    """What the command prints in the folder; it must end well."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_client_hears_the_voice_of_the_espeak_node(
    espeak_node: ServerProcess, folder: Path
) -> None:
    url = espeak_node.url.replace("http", "ws")

    printed = run(sys.executable, "client.py", url, folder=folder)

    assert "Good morning -> buenos días" in printed
    assert "Hello friend -> hola amigo" in printed
    for index in range(2):
        with wave.open(str(folder / f"sentence-{index}.wav")) as heard:
            samples = array.array("h", heard.readframes(heard.getnframes()))
            seconds = len(samples) / heard.getframerate()
        assert 0.3 < seconds < 10
        assert max(samples) > 1_000, "it is not silent"


def test_the_experiment_passes_its_gate(folder: Path) -> None:
    printed = run(BIN / "dragoman", "experiment", "run", "exp.toml", folder=folder / "experiment")

    assert "4 succeeded" in printed
    assert "gate passed: exact.mean >= 0.6: it is 0.75" in printed


def test_the_gate_in_a_test_suite_passes(folder: Path) -> None:
    printed = run(BIN / "pytest", "test_translation.py", folder=folder / "pytest_gate")

    assert "2 passed" in printed


def test_the_gate_in_a_test_suite_fails_when_the_translator_gets_worse(folder: Path) -> None:
    gate = folder / "pytest_gate" / "test_translation.py"
    # More of the same, so that chance cannot explain the loss.
    few = gate.read_text().replace("SENTENCES = [", "FEW = [")
    many = 'SENTENCES = [{**row, "number": n} for n in range(4) for row in FEW]'
    gate.write_text(few.replace("\n\n\ndef translate(", f"\n{many}\n\n\ndef translate("))
    run(BIN / "pytest", gate.name, folder=gate.parent)
    gate.write_text(gate.read_text().replace('"hello": "hola", ', ""))

    done = subprocess.run(
        [BIN / "pytest", gate.name],
        cwd=gate.parent,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )

    assert done.returncode == 1
    assert "hello friend" in done.stdout
    assert "wer is significantly worse: " in done.stdout
    assert "Look first at item " in done.stdout
