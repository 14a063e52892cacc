"""The commands beside a server, and Ctrl-C."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.serve.server_process import (
    DRAGOMAN,
    PATIENCE_SECONDS,
    ServerProcess,
    environment,
    eventually,
)

from dragoman.cli import main

RECORDED = """
name = "recorded"
[dataset]
file = "cases.jsonl"
[target]
kind = "recorded"
output = "said"
[[evaluators]]
kind = "exact"
reference = "meant"
"""
SLOW = """
name = "slow"
[dataset]
file = "cases.jsonl"
[target]
kind = "python"
function = "slowly:answer"
[run]
concurrency = 1
"""
ANSWER = """
import time
from pathlib import Path

def answer(said):
    if said != "0" and not Path(__file__).with_name("go on").exists():
        Path(__file__).with_name("stuck").touch()
        time.sleep(600)
    return said
"""


def write_files(folder: Path) -> None:
    rows = [{"said": str(n), "meant": str(n)} for n in range(3)]
    (folder / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "recorded.toml").write_text(RECORDED)
    (folder / "slow.toml").write_text(SLOW)
    (folder / "slowly.py").write_text(ANSWER)


def test_a_folder_in_use_by_a_server_goes_through_that_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(tmp_path)
    folder = str(tmp_path / "data")
    with ServerProcess(
        Path(folder), env=environment(DRAGOMAN_AUTH__MODE="keys"), lab=True
    ) as server:
        assert main(["keys", "create", "--role", "evaluator", "--data-dir", folder]) == 0
        key = capsys.readouterr().out.split()[-1]
        file = str(tmp_path / "recorded.toml")
        assert main(["experiment", "run", file, "--data-dir", folder]) == 1
        assert "A key is needed" in capsys.readouterr().err
        monkeypatch.setenv("DRAGOMAN_TOKEN", key)
        assert main(["experiment", "run", file, "--data-dir", folder]) == 0
        assert "3 succeeded" in capsys.readouterr().out
        listed = server.get("/api/v1/experiments", key).json()["items"]
        assert [one["name"] for one in listed] == ["recorded"]
        assert main(["experiment", "list", "--url", server.url]) == 0
        assert "recorded" in capsys.readouterr().out


APPENDING = """
name = "online"
[target]
kind = "recorded"
output = "said"
[[evaluators]]
kind = "exact"
reference = "meant"
[run]
"""


def test_an_append_experiment_is_opened_fed_and_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(tmp_path)
    folder = str(tmp_path / "data")
    file, cases = tmp_path / "online.toml", str(tmp_path / "cases.jsonl")
    file.write_text(APPENDING)
    where = ["--data-dir", folder]
    with ServerProcess(Path(folder), env=environment(), lab=True) as server:
        assert main(["experiment", "append", str(file), *where]) == 0
        assert "takes items." in capsys.readouterr().out
        for _ in range(2):
            assert main(["experiment", "invoke", "online", cases, *where]) == 0
            assert len(capsys.readouterr().out.split()) == 3
        assert main(["experiment", "finish", "online", *where]) == 0

        def ended() -> bool:
            [found] = server.get("/api/v1/experiments").json()["items"]
            return bool(found["status"] == "success" and found["stats"]["success"] == 6)

        eventually(ended, "the experiment ends")
        # The server owns the mirror: the command asks it to make it anew.
        assert main(["lab", "rebuild-mirror", *where]) == 0
        assert "made anew" in capsys.readouterr().out
        assert main(["experiment", "invoke", "online", cases, *where]) == 1
        assert "does not wait for items" in capsys.readouterr().err

        (tmp_path / "nightly.toml").write_text(
            APPENDING.replace("online", "nightly")
            + 'cron = "0 3 * * *"\ncron_timezone = "Europe/Vienna"\n'
        )
        nightly = str(tmp_path / "nightly.toml")
        assert main(["experiment", "run", nightly, *where]) == 2
        assert "dragoman experiment append" in capsys.readouterr().err
        assert main(["experiment", "append", nightly, *where]) == 0
        assert "Its next run is at" in capsys.readouterr().out
    assert main(["experiment", "finish", "nightly", *where]) == 2
    assert "need a server" in capsys.readouterr().err


def test_two_interrupts_stop_at_once_keep_what_is_done_and_say_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(tmp_path)
    command = [str(DRAGOMAN), "experiment", "run", "slow.toml", "--data-dir", "my data"]
    started = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )

    try:
        eventually((tmp_path / "stuck").exists, "the second item is worked on")
        started.send_signal(signal.SIGINT)
        assert started.stderr is not None
        assert "Press Ctrl-C again to cancel them" in started.stderr.readline()
        started.send_signal(signal.SIGINT)
        _, errors = started.communicate(timeout=PATIENCE_SECONDS)
    finally:
        started.kill()
        started.communicate()
    assert started.returncode == 130
    assert "results of 1 items are kept" in errors
    again = errors.rpartition("To resume: ")[2].strip()
    assert again == "dragoman experiment run slow.toml --data-dir 'my data'"
    (tmp_path / "go on").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert main(shlex.split(again)[1:]) == 0
    told = capsys.readouterr().out
    assert "Resuming slow" in told
    assert "3 succeeded" in told


def test_an_interrupt_in_the_first_moment_is_no_other(tmp_path: Path) -> None:
    write_files(tmp_path)
    with subprocess.Popen(
        [DRAGOMAN, "experiment", "run", "slow.toml", "--data-dir", "data"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline().startswith("Running slow")
        started.send_signal(signal.SIGINT)
        assert started.stderr is not None
        assert "Press Ctrl-C again to cancel them" in started.stderr.readline()
        started.send_signal(signal.SIGINT)
        _, errors = started.communicate(timeout=PATIENCE_SECONDS)
    assert started.returncode == 130
    assert "To resume: dragoman experiment run slow.toml --data-dir data" in errors


def test_the_watching_command_outlives_a_restart_of_the_server(tmp_path: Path) -> None:
    write_files(tmp_path)
    data = tmp_path / "data"
    allowed = environment(
        DRAGOMAN_LAB__PYTHON_ALLOW='["slowly:*"]',
        # Three leases lost would fail the item, and the killed server has cost one.
        DRAGOMAN_LAB__LEASE_SECONDS="6",
        PYTHONPATH=str(tmp_path),
    )
    with (
        ServerProcess(data, env=allowed, lab=True) as server,
        subprocess.Popen(
            [DRAGOMAN, "experiment", "run", "slow.toml", "--data-dir", "data"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        ) as watching,
    ):
        try:
            eventually((tmp_path / "stuck").exists, "the second item is worked on")
            server.process.kill()
            server.wait()
            assert watching.stderr is not None
            assert "Waiting for it to come back" in watching.stderr.readline()
            (tmp_path / "go on").touch()
            # On another port: it is found again by its folder.
            with ServerProcess(data, env=allowed, lab=True):
                told, errors = watching.communicate(timeout=2 * PATIENCE_SECONDS)
        finally:
            watching.kill()
    assert watching.returncode == 0, errors
    assert "The lab answers again." in errors
    assert "3 succeeded" in told


def test_commands_that_begin_at_once_do_not_take_each_others_name(tmp_path: Path) -> None:
    write_files(tmp_path)
    command = [str(DRAGOMAN), "experiment", "run", "recorded.toml", "--new", "--data-dir", "data"]
    started = [
        subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment()
        )
        for _ in range(3)
    ]
    told = [one.communicate(timeout=PATIENCE_SECONDS)[0] for one in started]
    assert [one.returncode for one in started] == [0, 0, 0]
    names = {text.partition(" (")[0].removeprefix("Running ") for text in told}
    assert names == {"recorded", "recorded #2", "recorded #3"}
