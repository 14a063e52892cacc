"""``dragoman dataset`` and ``dragoman experiment``, without a server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from dragoman.cli import main

EXPERIMENT = """
name = "shouting"
[dataset]
file = "cases.jsonl"
[target]
kind = "python"
function = "{module}:answer"
[[evaluators]]
kind = "exact"
reference = "meant"
[run]
concurrency = 2
retries = 0
[gate]
"exact.mean" = ">= {needed}"
"""

ANSWER = """
from pathlib import Path

def answer(said):
    with Path(__file__).with_name("calls").open("a") as calls:
        calls.write(said + "\\n")
    if said == "x" and not Path(__file__).with_name("mended").exists():
        raise ValueError("broken")
    return said.upper()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an experiment in it, and a module of its own beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRAGOMAN_CONFIG", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    module = f"answers_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(ANSWER)
    (tmp_path / "calls").touch()
    rows = [{"said": "a", "meant": "A"}, {"said": "b", "meant": "B"}, {"said": "x", "meant": "X"}]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_experiment(tmp_path, needed=0.9)
    return tmp_path


def write_experiment(folder: Path, needed: float) -> None:
    module = next(folder.glob("answers_*.py")).stem
    (folder / "exp.toml").write_text(EXPERIMENT.format(module=module, needed=needed))


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().split()


def test_an_experiment_runs_from_its_file_and_is_known_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", "run", "exp.toml", "--gate"]) == 0
    told = capsys.readouterr().out
    assert "2 succeeded, 1 failed" in told
    assert "gate passed: exact.mean >= 0.9" in told
    assert sorted(calls(folder)) == ["a", "b", "x"]

    # Tried again, only what failed is called.
    (folder / "mended").touch()
    assert main(["experiment", "retry", "shouting"]) == 0
    assert "3 succeeded, 0 failed" in capsys.readouterr().out
    assert sorted(calls(folder)) == ["a", "b", "x", "x"]

    # Finished, the same file makes a new experiment; the dataset is not imported twice.
    assert main(["experiment", "run", "exp.toml"]) == 0
    assert "shouting #2" in capsys.readouterr().out
    assert main(["experiment", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in listed] == ["shouting #2", "shouting"]
    assert len({one["dataset_version_id"] for one in listed}) == 1

    wanted = '{"field": "score.exact", "op": "=", "value": 1}'
    assert main(["experiment", "results", "shouting", "--filter", wanted, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert sorted(row["output"]["output"] for row in rows) == ["A", "B", "X"]
    assert main(["experiment", "show", "shouting"]) == 0
    assert "exact" in capsys.readouterr().out


def test_a_gate_that_is_not_reached_fails_the_command(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_experiment(folder, needed=1.1)
    assert main(["experiment", "run", "exp.toml"]) == 1
    assert "gate FAILED: exact.mean >= 1.1: it is 1" in capsys.readouterr().out


def test_gate_asks_for_a_gate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "exp.toml"
    file.write_text(file.read_text().partition("[gate]")[0])
    assert main(["experiment", "run", "exp.toml", "--gate"]) == 1
    assert "has no [gate]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("name = ", "no TOML"),
        ('name = "x"\n', "dataset"),
        ('name = "x"\n[dataset]\n[target]\nkind="python"\n', "either a `file` or a `name`"),
        ('name = "x"\n[dataset]\nfile="nowhere"\n[target]\nkind="python"\n', "nowhere"),
        ('name = "x"\ncolour = 1\n[dataset]\nname="d"\n[target]\nkind="python"\n', "colour"),
    ],
)
def test_a_file_that_makes_no_sense_is_bad_usage(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, word: str
) -> None:
    (folder / "exp.toml").write_text(text)
    assert main(["experiment", "run", "exp.toml"]) == 2
    assert word in capsys.readouterr().err


def test_datasets_are_imported_listed_shown_and_exported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dataset", "import", "cases.jsonl", "--name", "cases"]) == 0
    assert main(["dataset", "import", "cases.jsonl", "--name", "cases"]) == 0
    assert "version 2" in capsys.readouterr().out
    assert main(["dataset", "list"]) == 0
    assert "cases" in capsys.readouterr().out
    assert main(["dataset", "show", "cases"]) == 0
    assert "said: string" in capsys.readouterr().out
    assert main(["dataset", "export", "cases", "--out", "out.csv", "--format", "csv"]) == 0
    assert (folder / "out.csv").read_text().splitlines() == ["said,meant", "a,A", "b,B", "x,X"]
    assert main(["dataset", "export", "cases", "--out", "out.csv"]) == 2
    assert main(["dataset", "show", "nothing"]) == 1
    assert "dragoman dataset list" in capsys.readouterr().err


def test_a_broken_line_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "broken.csv").write_text("a,b\n1,2\n3\n")
    assert main(["dataset", "import", "broken.csv", "--name", "broken"]) == 1
    assert "line 3" in capsys.readouterr().err
