"""``dragoman engines``: what a node could run here, and what is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from dragoman.cli import main

STAGES = {
    "simulated": {"asr", "semantic", "nmt", "tts"},
    "local": {"asr", "nmt", "tts"},
    "command": {"asr", "semantic", "nmt", "tts"},
    "openai": {"asr", "semantic", "nmt", "tts"},
    "whisper": {"asr", "nmt"},
}


def listed(path: str) -> list[dict[str, Any]]:
    """What the command says on a machine whose programs are in these folders."""
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", "engines", "--json"],
        check=True,
        capture_output=True,
        env={**os.environ, "PATH": path},
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_every_stage_of_every_engine_is_listed_and_what_is_installed_is_ready() -> None:
    found = listed(os.environ["PATH"])
    for engine, stages in STAGES.items():
        mine = [one for one in found if one["engine"] == engine]
        assert {one["stage"] for one in mine} == stages
        assert all(one["ready"] and not one["missing"] for one in mine)


def test_what_is_missing_is_named_with_the_command_that_installs_it() -> None:
    found = {(one["engine"], one["stage"]): one for one in listed("/nowhere")}
    for stage, program in (("nmt", "apertium"), ("tts", "espeak-ng")):
        one = found["local", stage]
        assert not one["ready"]
        assert f"the program {program}" in [lack["name"] for lack in one["missing"]]
        assert all(lack["install"].startswith("apt install ") for lack in one["missing"])
    assert found["local", "asr"]["ready"], "its model is in its wheel"


def test_a_person_reads_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["engines"]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[0].split() == ["ENGINE", "STAGE", "BY", "HERE", "TO", "INSTALL"]
    assert "pocketsphinx (English)" in shown


def test_piper_is_named_with_its_command_where_it_is_not_installed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["engines"]) == 0
    [line] = [
        line
        for line in capsys.readouterr().out.splitlines()
        if line.split()[:2] == ["command", "tts"]
    ]
    assert line.endswith("yes   for the program piper: pip install 'dragoman[piper]'")
