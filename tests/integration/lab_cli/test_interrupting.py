"""Ctrl-C, progress and going on: with real processes, and a terminal where it matters."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.integration.lab_cli.terminal import on_a_terminal
from tests.integration.serve.server_process import (
    DRAGOMAN,
    PATIENCE_SECONDS,
    environment,
    eventually,
)

FUNCTIONS = """
import asyncio
from pathlib import Path

HERE = Path(__file__).parent

def note(word):
    with (HERE / "calls").open("a") as calls:
        calls.write(word + "\\n")

async def answer(said):
    note(said)
    while not (HERE / "finish").exists():
        await asyncio.sleep(0.01)
    note("done-" + said)
    return said
"""

SCRIPT = """
from functions import answer
from dragoman import lab

rows = [{"said": str(n), "meant": str(n)} for n in range(6)]
result = lab.run(
    dataset=rows,
    target=answer,
    evaluators=[lab.exact(reference="meant")],
    concurrency=2,
    data_dir="data",
    name="waiting",
)
print(result.summary)
"""

EXPERIMENT = """
name = "waiting"
[dataset]
file = "cases.jsonl"
[target]
kind = "python"
function = "functions:answer"
[[evaluators]]
kind = "exact"
reference = "meant"
[run]
concurrency = 2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "exp.toml").write_text(EXPERIMENT)
    rows = [{"said": str(n), "meant": str(n)} for n in range(6)]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "calls").touch()
    return tmp_path


COMMANDS = {
    "lab.run": [sys.executable, "script.py"],
    "command line": [str(DRAGOMAN), "experiment", "run", "exp.toml", "--data-dir", "data"],
}


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().split()


def begun(folder: Path) -> list[str]:
    return sorted(call for call in calls(folder) if "-" not in call)


@contextmanager
def started(folder: Path, command: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(PYTHONPATH=str(folder)),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until_it_says(process: subprocess.Popen[str], words: str) -> str:
    """What it says on standard error, up to these words."""
    assert process.stderr is not None
    said = ""
    while words not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    return said


@pytest.mark.parametrize("way", COMMANDS)
def test_the_first_interrupt_lets_calls_finish_and_the_next_start_goes_on(
    folder: Path, way: str
) -> None:
    with started(folder, COMMANDS[way]) as process:
        eventually(lambda: len(calls(folder)) == 2, "two calls are in flight")
        process.send_signal(signal.SIGINT)
        until_it_says(process, "2 calls in flight are let finish")
        (folder / "finish").touch()
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert errors.count("\n") == 1, errors
    assert "Stopped. The results of 2 " in errors
    assert "To resume" in errors
    assert len(calls(folder)) == 4, "what was begun was finished, and nothing else was begun"

    with started(folder, COMMANDS[way]) as process:
        told, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, errors
    assert "Resuming waiting" in told + errors
    assert "6 succeeded" in told
    assert begun(folder) == [str(n) for n in range(6)], "no call was paid for twice"


@pytest.mark.parametrize("way", COMMANDS)
def test_the_second_interrupt_cancels_the_calls_in_flight(folder: Path, way: str) -> None:
    with started(folder, COMMANDS[way]) as process:
        eventually(lambda: len(calls(folder)) == 2, "two calls are in flight")
        process.send_signal(signal.SIGINT)
        until_it_says(process, "Press Ctrl-C again")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert "Cancelling the calls in flight." in errors
    assert "Stopped. The results of 0 " in errors
    assert not [call for call in calls(folder) if "-" in call]


def test_a_program_that_catches_the_interrupt_is_told_how_to_go_on(folder: Path) -> None:
    script = folder / "script.py"
    indented = "".join(f"    {line}\n" for line in SCRIPT.splitlines())
    script.write_text(
        f"try:\n{indented}\nexcept KeyboardInterrupt as stopped:\n    print('caught:', stopped)\n"
    )
    with started(folder, COMMANDS["lab.run"]) as process:
        eventually(lambda: len(calls(folder)) == 2, "two calls are in flight")
        process.send_signal(signal.SIGINT)
        until_it_says(process, "Press Ctrl-C again")
        (folder / "finish").touch()
        told, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert "caught: Stopped. The results of 2 of 6 items are kept." in told


def test_a_program_that_was_killed_goes_on_where_it_was(folder: Path) -> None:
    with started(folder, COMMANDS["lab.run"]) as process:
        eventually(lambda: len(calls(folder)) == 2, "two calls are in flight")
        process.kill()
        process.wait()
    (folder / "finish").touch()
    with started(folder, COMMANDS["lab.run"]) as process:
        told, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, errors
    assert "Resuming waiting" in errors
    assert "waiting: success, 6 succeeded" in told


def elapsed(seen: str) -> set[str]:
    return set(re.findall(r"0:00:\d\d", seen))


@pytest.mark.parametrize("way", COMMANDS)
def test_a_terminal_shows_progress_whose_time_runs_also_after_an_interrupt(
    folder: Path, way: str
) -> None:
    with on_a_terminal(folder, COMMANDS[way]) as terminal:
        terminal.until(lambda seen: "0/6" in seen, "all items are counted from the beginning")
        terminal.until(lambda seen: len(elapsed(seen)) >= 2, "the time runs")
        terminal.process.send_signal(signal.SIGINT)
        terminal.until(lambda seen: "terminating" in seen, "it is being stopped")
        before = elapsed(terminal.seen)
        terminal.until(lambda seen: len(elapsed(seen) - before) >= 2, "the time runs on")
        assert "6/6" not in terminal.seen, "what is stopped is not done"
        (folder / "finish").touch()
        terminal.until(lambda seen: "To resume" in seen, "it ends")
    (folder / "finish").unlink()
    with on_a_terminal(folder, COMMANDS[way]) as terminal:
        terminal.until(lambda seen: "2/6" in seen, "what is done is done")
        terminal.until(lambda seen: len(elapsed(seen)) >= 2, "the time runs")
        assert "6/6" not in terminal.seen
        (folder / "finish").touch()
        terminal.until(lambda seen: "6 succeeded" in seen, "it ends")


def test_the_command_that_was_printed_goes_on(folder: Path) -> None:
    with started(folder, COMMANDS["command line"]) as process:
        eventually(lambda: len(calls(folder)) == 2, "two calls are in flight")
        process.send_signal(signal.SIGINT)
        until_it_says(process, "Press Ctrl-C again")
        (folder / "finish").touch()
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    again = shlex.split(errors.rpartition("To resume: ")[2])
    with (folder / "exp.toml").open("a") as file:
        file.write('# a remark\n[gate]\n"exact.mean" = ">= 0.5"\n')
    with started(folder, [str(DRAGOMAN), *again[1:]]) as process:
        told, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, errors
    assert "Resuming waiting" in told
    assert "gate passed: exact.mean >= 0.5" in told
    assert begun(folder) == [str(n) for n in range(6)]
