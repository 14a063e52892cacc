"""``dragoman simulate`` from the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.live_api.manual_node import Caller, ManualNode
from tests.integration.serve.server_process import ServerProcess

from dragoman.cli import main
from dragoman.simulation import parse_scenario

SMALL = """
[simulation]
duration_seconds = 40
warmup_seconds = 5
[[fleet]]
name = "gpu"
nodes = 4
slots = 2
service_ms = { median = 500, p95 = 1500 }
[[traffic]]
name = "speakers"
sessions = 20
pair = "en:es"
[[traffic]]
name = "callers"
kind = "jobs"
jobs_per_second = 2.0
"""
TROUBLED = (
    SMALL.replace("[[fleet]]", "instances = 2\n[[fleet]]", 1)
    + """
[[fault]]
kind = "node"
at_seconds = 10
for_seconds = 5
nodes = 2
[[fault]]
kind = "instance"
at_seconds = 15
for_seconds = 5
[[fault]]
kind = "lying"
at_seconds = 20
for_seconds = 5
[[fault]]
kind = "redis"
at_seconds = 28
for_seconds = 2
"""
)


def written(folder: Path, text: str, name: str = "small.toml") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def run_elsewhere(arguments: list[str], hash_seed: str) -> bytes:
    """The command in a process of its own, with another order of hashes."""
    program = "import sys; from dragoman.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", program, "simulate", *arguments],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
        capture_output=True,
    )
    return done.stdout


@pytest.mark.parametrize("text", [SMALL, TROUBLED], ids=["calm", "troubled"])
def test_the_same_seed_gives_the_same_bytes_in_any_process(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    outputs = []
    for number, (hash_seed, processes) in enumerate((("1", "1"), ("4242", "2"))):
        folder = tmp_path / f"report-{number}"
        arguments = [path, "--seed", "7", "--runs", "2", "--report", str(folder)]
        shown = run_elsewhere([*arguments, "--processes", processes], hash_seed)
        pages = [(folder / name).read_bytes() for name in ("report.html", "report.json")]
        outputs.append((shown, *pages))
    assert outputs[0] == outputs[1]
    figures = json.loads(outputs[0][2])
    assert figures["runs"][0]["whole"]["served"] > 100
    assert figures["runs"][0]["whole"] != figures["runs"][1]["whole"], "another seed, other draws"


def test_the_table_names_what_was_served_and_the_first_bottleneck(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", written(tmp_path, SMALL)]) == 0
    shown = capsys.readouterr().out
    for expected in ("en:es (speakers)", "gpu", "p99 ms", "First bottleneck: "):
        assert expected in shown


def test_a_page_has_its_plots_in_it_and_fetches_nothing(tmp_path: Path) -> None:
    assert main(["simulate", written(tmp_path, SMALL), "--report", str(tmp_path / "r")]) == 0
    page = (tmp_path / "r" / "report.html").read_text()
    assert page.count("<svg") == 2
    assert "First bottleneck" in page
    for fetched in ("http://", "https://", "src=", "href=", "@import", "url("):
        assert fetched not in page


def test_two_scenarios_are_shown_side_by_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = written(tmp_path, SMALL, "four.toml")
    b = written(tmp_path, SMALL.replace("nodes = 4", "nodes = 2"), "two.toml")
    folder = tmp_path / "r"
    options = ["--runs", "3", "--processes", "1", "--report", str(folder)]
    assert main(["simulate", "--compare", a, b, *options]) == 0
    shown = capsys.readouterr().out
    assert "A: four" in shown
    assert "B: two" in shown
    figures = json.loads((folder / "report.json").read_text())
    busy = next(one for one in figures["differences"] if one["metric"] == "busy")
    assert busy["change"]["low"] > 0, "half the nodes are busier"
    assert (folder / "report.html").read_text().count("<svg") == 1


def test_the_example_can_be_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--example"]) == 0
    example = capsys.readouterr().out.replace("duration_seconds = 3600", "duration_seconds = 70")
    assert main(["simulate", written(tmp_path, example), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["scenario"] == "monday"


def test_a_plan_names_the_fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, SMALL)
    assert main(["simulate", path, "--plan", "refused < 1% and p99 < 4s", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 1 <= found["nodes"]["gpu"] <= 8
    assert found["report"]["runs"][0]["whole"]["refused_share"] < 0.01


def test_a_goal_that_no_fleet_meets_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, SMALL.replace("slots = 2", "slots = 2\nmax_nodes = 4"))
    assert main(["simulate", path, "--plan", "p50 < 1ms"]) == 1
    assert "Not even the largest fleet allowed (4 x gpu)" in capsys.readouterr().err


def test_faults_that_break_a_promise_are_printed_with_their_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, SMALL)
    options = ["--promise", "wait_p99 < 300ms", "--schedules", "20", "--processes", "1"]
    assert main(["simulate", path, "--find-faults", *options, "--seed", "5"]) == 1
    shown = capsys.readouterr().out
    assert "[[fault]]" in shown
    assert "replay them with --seed" in shown


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "No scenario was named; begin with `dragoman simulate --example"),
        (["missing.toml"], "missing.toml: the file cannot be read"),
        (["--example", "--plan", "p99 < 1s"], "--example and --plan cannot be used together"),
        (["--example", "x.toml"], "--example takes no scenario besides; leave out x.toml"),
        (["x.toml", "--promise", "p99 < 1s"], "--promise is for --find-faults"),
    ],
)
def test_options_that_do_not_go_together_are_bad_usage(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *arguments]) == 2
    assert problem in capsys.readouterr().err


def test_a_scenario_is_made_of_what_a_running_server_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        ServerProcess(tmp_path / "data") as server,
        ManualNode(server, ("en", "es"), slots=3) as node,
    ):
        caller = Caller(server)
        asked = caller.begin_to_ask(("en", "es"), wait_ms=60_000)
        job = node.take()
        node.accept(job)
        node.succeed(job, text_translated="hola")
        assert asked.result().status_code == 201
        caller.close()
        assert main(["simulate", "--from-server", server.url]) == 0
    scenario = parse_scenario(capsys.readouterr().out)
    assert [(group.nodes, group.slots) for group in scenario.fleet] == [(1, 3)]
    assert scenario.traffic[0].pairs == ("en:es",)


def test_a_server_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--from-server", "http://127.0.0.1:9"]) == 1
    assert "No server answers at http://127.0.0.1:9" in capsys.readouterr().err
