"""Before the start: ``--dry-run``, the question on a terminal, and ``lab.estimate``."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
import wave
from pathlib import Path
from typing import Any

import pytest
from tests.integration.lab_cli.terminal import on_a_terminal
from tests.integration.serve.server_process import (
    DRAGOMAN,
    PATIENCE_SECONDS,
    ServerProcess,
    environment,
)
from tests.servers.openai_server import OpenAiServer

from dragoman import lab
from dragoman.cli import main
from dragoman.errors import DatasetEmpty, DatasetInvalid, InvalidMessage
from dragoman.lab.estimates import EstimatedRange

PAID = """
name = "paid"
[dataset]
{dataset}
[target]
kind = "openai"
url = "{url}"
model = "echo"
prompt = "{{{{said}}}}"
price = {{input = 100, output = 200}}
[[evaluators]]
kind = "exact"
reference = "said"
[[evaluators]]
kind = "llm_judge"
name = "voted"
url = "{url}"
model = "rubric-judge"
rubric = "Is it good?"
votes = 3
cache = false
price = {{input = 10, output = 10}}
[[evaluators]]
kind = "llm_judge"
name = "repaired"
url = "{url}"
model = "repairing-judge"
rubric = "Is it good?"
cache = false
[run]
repetitions = 2
"""

FREE = """
name = "counted"
[dataset]
file = "cases.jsonl"
[target]
kind = "python"
function = "functions:answer"
[[evaluators]]
kind = "exact"
reference = "said"
"""

FUNCTIONS = """
from pathlib import Path

HERE = Path(__file__).parent

def answer(said):
    with (HERE / "calls").open("a") as calls:
        calls.write(said + "\\n")
    if (HERE / "broken").exists():
        raise ValueError("out of order")
    return said
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "functions", raising=False)
    rows = [{"said": f"good {n:02}"} for n in range(12)]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    (tmp_path / "counted.toml").write_text(FREE)
    (tmp_path / "calls").touch()
    return tmp_path


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


def everything_in(database: Path) -> dict[str, list[Any]]:
    with sqlite3.connect(database) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {
            name: sorted(map(repr, connection.execute(f'SELECT * FROM "{name}"').fetchall()))
            for (name,) in names
        }


def figures_of(told: str) -> dict[str, str]:
    """The lines of an estimate by their names."""
    lines = (line.split(maxsplit=1) for line in told.splitlines() if line.startswith("  "))
    return {line[0]: line[1] for line in lines}


def test_the_figures_are_those_of_the_run_that_follows(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with OpenAiServer() as server:
        (folder / "paid.toml").write_text(
            PAID.format(url=server.url, dataset='file = "cases.jsonl"')
        )
        assert main(["experiment", "run", "paid.toml", "--dry-run"]) == 0
        told = capsys.readouterr().out
        # One call of the target, three votes, and one answer that has to be repaired.
        assert len(server.asked) == 3 * (1 + 3 + 2), "three items are tried, once"
        assert not (folder / ".dragoman").exists(), "nothing is stored, not even a folder"
        tried = server.counts.copy()
        assert main(["experiment", "run", "paid.toml", "--yes"]) == 0
        made = len(server.asked) - sum(tried.values())
        capsys.readouterr()
        assert main(["experiment", "show", "paid", "--json"]) == 0
        stats = json.loads(capsys.readouterr().out)["experiment"]["stats"]
    figures = figures_of(told)
    assert figures["calls"] == f"about {made}" == "about 144"
    assert figures["tokens"] == f"about {stats['tokens']:,}" == "about 2,160"
    paid = (10 * 100 + 5 * 200) * 24 / 1e6 + 15 * 10 * (24 * 3) / 1e6
    assert figures["cost"].startswith(f"about {paid:.2g}, without score.repaired")
    assert stats["cost"] == pytest.approx(paid)
    assert told.count("success") == 3, "the items are shown"
    assert "of which the target: 24 calls, 360 tokens" in told
    assert "The cost of score.repaired is not known: the model 'repairing-judge'" in told
    assert "`evaluator.price`" in told


def test_a_dry_run_leaves_every_table_as_it_was(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dataset", "import", "cases.jsonl", "--name", "cases"]) == 0
    assert main(["experiment", "run", "counted.toml"]) == 0
    (folder / "calls").write_text("")
    before = everything_in(folder / ".dragoman" / "dragoman.db")
    files = sorted(folder.rglob("*.db"))
    named = folder / "named.toml"
    named.write_text(FREE.replace('file = "cases.jsonl"', 'name = "cases"'))
    for file in ("counted.toml", "named.toml"):
        capsys.readouterr()
        assert main(["experiment", "run", file, "--dry-run"]) == 0
        assert "calls   about 12\n" in capsys.readouterr().out
    first, second = sorted(calls(folder)[:3]), sorted(calls(folder)[3:])
    assert first == second, "the same items, from the file and from the lab"
    assert len(set(first)) == 3
    assert everything_in(folder / ".dragoman" / "dragoman.db") == before
    assert sorted(folder.rglob("*.db")) == files


def test_a_dry_run_says_what_failed_and_fails_when_nothing_went_well(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken").touch()
    assert main(["experiment", "run", "counted.toml", "--dry-run"]) == 1
    said = capsys.readouterr()
    assert said.err.count("failed with TARGET_ERROR") == 3
    assert "out of order" in said.err
    assert len(calls(folder)) == 3, "nothing is tried again"
    (folder / "cases.jsonl").write_text("")
    assert main(["experiment", "run", "counted.toml", "--dry-run"]) == 2
    assert "no items" in capsys.readouterr().err
    (folder / "cases.jsonl").write_text('{"said": "a"}\n{broken\n')
    assert main(["experiment", "run", "counted.toml", "--dry-run"]) == 2
    assert "line 2" in capsys.readouterr().err
    (folder / "cases.jsonl").write_text('{"sung": "a"}\n')
    assert main(["experiment", "run", "counted.toml", "--dry-run"]) == 2
    assert "said" in capsys.readouterr().err


def test_a_dry_run_through_a_server_stores_nothing_there(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "recorded.toml").write_text(
        FREE.replace('"python"', '"recorded"').replace(
            'function = "functions:answer"', 'output = "said"'
        )
    )
    with ServerProcess(folder / "data", lab=True) as server:
        assert main(["experiment", "run", "recorded.toml", "--dry-run", "--url", server.url]) == 0
        told = capsys.readouterr().out
        assert "calls   about 0" in told, "what is recorded is not called"
        assert told.count("success") == 3
        arguments = ["experiment", "run", "counted.toml", "--dry-run", "--data-dir", "data"]
        assert main(arguments) == 2, "the server may not call the user's functions"
        assert "python_allow" in capsys.readouterr().err
        for path in ("datasets", "experiments"):
            assert server.get(f"/api/v1/{path}").json()["items"] == []


AUDIO = """
name = "heard"
[dataset]
file = "talks.jsonl"
audio = ["talk"]
[target]
kind = "python"
function = "dry_hearing:answer"
"""


def test_a_dry_run_hears_the_audio_of_a_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "dry_hearing.py").write_text(
        "def answer(talk):\n    return len(talk.path.read_bytes())\n"
    )
    for name in ("one", "two"):
        with wave.open(str(folder / f"{name}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(name.encode() * 80)
    rows = [{"talk": "one.wav"}, {"talk": "two.wav"}]
    (folder / "talks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "heard.toml").write_text(AUDIO)
    assert main(["experiment", "run", "heard.toml", "--dry-run"]) == 0
    size = (folder / "one.wav").stat().st_size
    assert capsys.readouterr().out.count(f"output={size}") == 2
    with ServerProcess(folder / "data", lab=True) as server:
        assert main(["experiment", "run", "heard.toml", "--dry-run", "--url", server.url]) == 2
        assert "dragoman dataset import" in capsys.readouterr().err


def test_a_budget_of_cost_is_refused_where_a_model_has_no_price(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PAID.format(url="http://127.0.0.1:9/v1", dataset='file = "cases.jsonl"')
    (folder / "paid.toml").write_text(f"{text}[budget]\ncost = 1.5\n")
    for options in ([], ["--dry-run"]):
        assert main(["experiment", "run", "paid.toml", *options]) == 2
        said = capsys.readouterr().err
        assert "paid.toml: The experiment has a budget of cost 1.5" in said
        assert "'repairing-judge' has no price; give `evaluator.price`" in said


# --- the question ---------------------------------------------------------------------------------

RUN = [str(DRAGOMAN), "experiment", "run", "counted.toml", "--data-dir", "data"]
FEW = {"DRAGOMAN_LAB__ASK_ABOVE_ITEMS": "11"}


def test_a_person_is_asked_before_a_large_run_and_may_say_no(folder: Path) -> None:
    for typed, code in (("\n", 1), ("no\n", 1), ("\x04", 1)):
        (folder / "calls").write_text("")
        with on_a_terminal(folder, RUN, **FEW) as terminal:
            terminal.until(lambda seen: "Go on? [y/N]" in seen, "it asks")
            assert "This run will take about 12 calls" in terminal.seen
            terminal.type(typed)
            terminal.until(lambda seen: "Nothing was started." in seen, "it stops")
            assert terminal.process.wait(PATIENCE_SECONDS) == code
        assert len(calls(folder)) == 3, "only the sample was called"
    listed = subprocess.run(
        [str(DRAGOMAN), "experiment", "list", "--data-dir", "data"],
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment(),
    )
    assert "There are no experiments" in listed.stdout


def test_a_person_who_says_yes_gets_the_run_and_is_not_asked_when_it_goes_on(folder: Path) -> None:
    with on_a_terminal(folder, RUN, **FEW) as terminal:
        terminal.until(lambda seen: "Go on? [y/N]" in seen, "it asks")
        terminal.type("y\n")
        terminal.until(lambda seen: "12 succeeded" in seen, "it runs")
        assert terminal.process.wait(PATIENCE_SECONDS) == 0
    assert len(calls(folder)) == 3 + 12


def test_an_interrupt_is_an_answer_too(folder: Path) -> None:
    with on_a_terminal(folder, RUN, **FEW) as terminal:
        terminal.until(lambda seen: "Go on? [y/N]" in seen, "it asks")
        terminal.process.send_signal(signal.SIGINT)
        terminal.until(lambda seen: "Nothing was started." in seen, "it stops")
        assert terminal.process.wait(PATIENCE_SECONDS) == 130
        assert "Traceback" not in terminal.seen


@pytest.mark.parametrize(
    ("options", "most"),
    [
        pytest.param(["--yes"], "11", id="with --yes"),
        pytest.param([], "12", id="at the limit"),
        pytest.param([], "0", id="when it is never to ask"),
    ],
)
def test_a_person_is_not_asked(folder: Path, options: list[str], most: str) -> None:
    with on_a_terminal(folder, [*RUN, *options], DRAGOMAN_LAB__ASK_ABOVE_ITEMS=most) as terminal:
        terminal.until(lambda seen: "12 succeeded" in seen, "it runs")
        assert "Go on?" not in terminal.seen
    assert len(calls(folder)) == 12


def test_repetitions_count_towards_the_limit_and_recorded_outputs_are_not_asked_about(
    folder: Path,
) -> None:
    limit = {"DRAGOMAN_LAB__ASK_ABOVE_ITEMS": "12"}
    with on_a_terminal(folder, [*RUN, "--repetitions", "2"], **limit) as terminal:
        terminal.until(lambda seen: "Go on? [y/N]" in seen, "it asks")
        assert "about 24 calls" in terminal.seen
    file = folder / "counted.toml"
    file.write_text(
        file.read_text()
        .replace('"python"', '"recorded"')
        .replace('function = "functions:answer"', 'output = "said"')
    )
    with on_a_terminal(folder, RUN, **FEW) as terminal:
        terminal.until(lambda seen: "12 succeeded" in seen, "it runs")
        assert "Go on?" not in terminal.seen


def test_without_a_terminal_the_run_starts_unasked(folder: Path) -> None:
    done = subprocess.run(
        RUN,
        check=False,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        env=environment(**FEW),
    )
    assert done.returncode == 0, done.stderr
    assert "12 succeeded" in done.stdout
    assert len(calls(folder)) == 12, "and nothing is tried for an estimate"


# --- in Python ------------------------------------------------------------------------------------


def test_a_program_estimates_from_rows_a_file_and_a_name(folder: Path) -> None:
    seen: list[str] = []

    def answer(said: str) -> lab.Output:
        seen.append(said)
        return lab.Output(said, tokens=len(said), cost=0.5)

    rows = [{"said": f"good {n:02}"} for n in range(12)]
    lab.run(dataset="cases.jsonl", target=answer, data_dir="data")
    before = everything_in(folder / "data" / "dragoman.db")
    for dataset in (rows, Path("cases.jsonl"), lab.DatasetFile("cases.jsonl")):
        seen.clear()
        found = lab.estimate(
            dataset=dataset,
            target=answer,
            evaluators=[lab.exact(reference="said")],
            repetitions=2,
            data_dir="nowhere",
        )
        assert len(seen) == 3
        assert found.estimate.calls.likely == 24
        assert found.estimate.tokens is not None
        assert found.estimate.tokens.likely == 24 * 7
        assert found.estimate.cost is not None
        assert found.estimate.cost.likely == 12
        assert [row.scores["exact"].score for row in found.rows] == [1, 1, 1]
        assert "cost    about 12.00" in str(found)
    assert not (folder / "nowhere").exists()
    (folder / "cases.jsonl").rename(folder / "elsewhere.jsonl")

    async def by_name() -> lab.EstimateResult:
        return await lab.aestimate(dataset="cases.jsonl", target=answer, data_dir="data")

    assert asyncio.run(by_name()).estimate.items == 12
    assert everything_in(folder / "data" / "dragoman.db") == before
    with pytest.raises(InvalidMessage, match="no file and no dataset"):
        lab.estimate(dataset="cases.jsonl", target=answer, data_dir="nowhere")
    assert not (folder / "nowhere").exists()
    with pytest.raises(DatasetEmpty):
        lab.estimate(dataset=[], target=answer)
    with pytest.raises(DatasetInvalid):
        lab.estimate(dataset=[{"said": float("nan")}], target=answer)


def test_conversations_count_a_call_for_every_turn(folder: Path) -> None:
    talk: dict[str, Any] = {"turns": [{"said": "a"}, {"said": "b"}]}
    found = lab.estimate(dataset=[talk, talk], target=lambda said, history: said)
    assert (found.estimate.items, found.estimate.turns) == (2, 4)
    assert found.estimate.calls == EstimatedRange(4, 4, 4)
    assert [row.turn for row in found.rows] == [0, 1, 0, 1]
