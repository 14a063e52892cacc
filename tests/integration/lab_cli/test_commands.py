"""``dragoman dataset`` and ``dragoman experiment``, without a server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.integration.serve.server_process import DRAGOMAN, environment

from dragoman.cli import main
from dragoman.cli.experiment.experiment_file import read_experiment_file

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
max_failed = 0.4
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
    (tmp_path / "cases.jsonl").write_text("".join(map(jsonl, rows)))
    write_experiment(tmp_path, needed=0.9)
    return tmp_path


def jsonl(row: Mapping[str, str | None]) -> str:
    return json.dumps(row) + "\n"


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


def test_an_experiment_is_shown_by_the_values_of_a_column_and_of_some_rows(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"said": said, "meant": said.upper(), "domain": domain, "speaker": "s"}
        for said, domain in (("a", "news"), ("b", "news"), ("x", "chat"), ("c", None))
    ]
    (folder / "cases.jsonl").write_text("".join(map(jsonl, rows)))
    main(["experiment", "run", "exp.toml"])
    capsys.readouterr()
    assert main(["experiment", "show", "shouting", "--group-by", "domain"]) == 0
    told = capsys.readouterr().out
    lines = [line.split() for line in told.splitlines()]
    assert ["domain", "rows", "exact"] in lines
    assert any(line[:3] == ["news", "2", "1"] for line in lines)
    assert ["(none)", "1", "1"] in [line[:3] for line in lines]
    assert ["chat", "1", "-"] in lines, "the item that failed has no score"
    wanted = '{"field": "input.domain", "op": "=", "value": "news"}'
    assert main(["experiment", "show", "shouting", "--filter", wanted, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["aggregates"]["scores"]["exact"]["count"] == 2
    asked = ["experiment", "show", "shouting", "--json", "--cluster"]
    assert main([*asked, "speaker"]) == 0
    score = json.loads(capsys.readouterr().out)["aggregates"]["scores"]["exact"]
    assert (score["count"], score.get("ci95")) == (3, None), "one speaker tells nothing of others"
    assert main([*asked, "speeker"]) == 1
    assert "has a column 'speeker' to name clusters by" in capsys.readouterr().err


def test_a_gate_that_is_not_reached_fails_the_command(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_experiment(folder, needed=1.1)
    assert main(["experiment", "run", "exp.toml"]) == 1
    assert "gate FAILED: exact.mean >= 1.1: it is 1" in capsys.readouterr().out


def test_a_gate_fails_when_items_have_no_score_and_the_summary_says_why(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "exp.toml"
    file.write_text(file.read_text().replace("max_failed = 0.4", ""))
    assert main(["experiment", "run", "exp.toml"]) == 1
    told = capsys.readouterr().out
    assert "gate passed: exact.mean >= 0.9" in told
    assert "gate FAILED: max_failed <= 0: it is 0.333333" in told
    assert 'TARGET_ERROR (1), such as "' in told
    assert "ValueError: broken" in told
    assert "latency: mean" in told
    assert "duration: " in told


@pytest.mark.parametrize(
    ("line", "instead", "words"),
    [
        ("concurrency = 2", "concurency = 2", "[run] has no key 'concurency'; did you mean 'conc"),
        ('name = "shouting"', 'name = "s"\nconcurrency = 2', "it belongs to [run]"),
        ('reference = "meant"', 'reference = "meant"\nretries = 1', "it belongs to [run]"),
        ('reference = "meant"', 'referense = "meant"', "did you mean 'reference'?"),
        ("retries = 0", "retries = 0\nmax_failed = 0", "[run] has no key 'max_failed'; it belong"),
        ("retries = 0", "retries = 0\n[budget]\ntoken = 1", "did you mean 'tokens'?"),
        ("[[evaluators]]", "[[evaluator]]", "did you mean 'evaluators'?"),
        ('"exact.mean"', '"exat.mean"', "did you mean 'exact'?"),
    ],
)
def test_a_key_that_means_nothing_is_named_with_what_was_meant(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str, instead: str, words: str
) -> None:
    file = folder / "exp.toml"
    file.write_text(file.read_text().replace(line, instead))
    assert main(["experiment", "run", "exp.toml"]) == 2
    assert words in capsys.readouterr().err


def test_a_weight_in_the_file_is_kept_and_does_not_make_another_experiment(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "exp.toml"
    as_it_was = file.read_text()
    mark = read_experiment_file(file).mark
    file.write_text(as_it_was.replace("retries = 0", "retries = 0\nweight = 2"))
    assert read_experiment_file(file).mark == mark
    assert main(["experiment", "run", "exp.toml"]) == 0
    capsys.readouterr()
    assert main(["experiment", "list", "--json"]) == 0
    assert [one["weight"] for one in json.loads(capsys.readouterr().out)] == [2.0]
    file.write_text(as_it_was.replace("retries = 0", "retries = 0\nweight = 0"))
    assert main(["experiment", "run", "exp.toml", "--new"]) == 2
    assert "weight is 0.0; it must be from 0.001 to 1000" in capsys.readouterr().err


def test_a_comment_a_gate_or_the_concurrency_do_not_make_another_experiment(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", "run", "exp.toml"]) == 0
    file = folder / "exp.toml"
    mark = read_experiment_file(file).mark
    text = file.read_text()
    for same in (
        text + "\n# a remark\n",
        text.replace(">= 0.9", ">= 0.5"),
        text.replace("concurrency = 2", "concurrency = 3").replace("retries = 0", "retries = 1"),
        text.replace('name = "shouting"', 'name = "shouting"\ndescription = "loud"'),
    ):
        file.write_text(same)
        assert read_experiment_file(file).mark == mark
    for other in (
        text.replace('reference = "meant"', 'reference = "said"'),
        text.replace("retries = 0", "item_timeout_seconds = 3"),
    ):
        file.write_text(other)
        assert read_experiment_file(file).mark != mark


def test_gate_asks_for_a_gate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "exp.toml"
    file.write_text(file.read_text().partition("[gate]")[0])
    assert main(["experiment", "run", "exp.toml", "--gate"]) == 1
    assert "has no [gate]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("name = ", "not a TOML"),
        ('name = "x"\n', "target"),
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


@pytest.mark.parametrize(
    ("line", "instead", "word"),
    [
        ("concurrency = 2", "concurrency = 0", "concurrency is 0"),
        ('reference = "meant"', 'reference = "sung"', "sung"),
        ('file = "cases.jsonl"', 'name = "nothing"', "no dataset 'nothing'"),
        ('"exact.mean"', '"exactly.mean"', "matches no evaluator"),
        ("retries = 0", "retries = 0\n[budget]\ntoken = 100", "token"),
    ],
)
def test_a_file_that_the_lab_refuses_is_bad_usage_too(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str, instead: str, word: str
) -> None:
    file = folder / "exp.toml"
    file.write_text(file.read_text().replace(line, instead))
    assert main(["experiment", "run", "exp.toml"]) == 2
    told = capsys.readouterr().err
    assert "exp.toml: " in told
    assert word in told


def test_items_that_are_named_are_tried_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["experiment", "run", "exp.toml"])
    capsys.readouterr()
    assert main(["experiment", "results", "shouting", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)[0]["item_id"]
    assert main(["experiment", "retry", "shouting", "--item", first]) == 0
    assert sorted(calls(folder)) == ["a", "a", "b", "x"]
    assert main(["experiment", "retry", "shouting", "--mode", "retry_items"]) == 2
    assert "--item" in capsys.readouterr().err
    assert main(["experiment", "retry", "shouting", "--mode", "submit"]) == 2


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        (["--data-dir", "elsewhere"], 1, "no lab in"),
        (["--url", "localhost"], 2, "http://"),
        (["--url", "http://127.0.0.1:1", "--data-dir", "d"], 2, "one of them"),
    ],
)
def test_a_lab_that_is_not_there_is_not_made_up(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: int, word: str
) -> None:
    assert main(["experiment", "list", *options]) == code
    assert word in capsys.readouterr().err
    assert not (folder / "elsewhere").exists()


def test_programs_read_json_and_whole_ids(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "cases that have a rather long name, as those of files with their hash do"
    assert main(["dataset", "import", "cases.jsonl", "--name", name]) == 0
    capsys.readouterr()
    assert main(["dataset", "list", "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert main(["dataset", "show", name, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["dataset"] == listed
    assert [version["items"] for version in shown["versions"]] == [3]
    assert main(["dataset", "list"]) == 0
    assert listed["dataset_id"] in capsys.readouterr().out


def test_an_export_whose_reader_has_gone_ends_quietly(folder: Path) -> None:
    more_than_is_buffered = [{"said": "x" * 1000}] * 100
    (folder / "cases.jsonl").write_text("".join(map(jsonl, more_than_is_buffered)))
    assert main(["dataset", "import", "cases.jsonl", "--name", "cases"]) == 0
    with subprocess.Popen(
        [DRAGOMAN, "dataset", "export", "cases"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as export:
        assert export.stdout is not None
        assert export.stderr is not None
        export.stdout.close()
        assert export.stderr.read() == b""
    assert export.returncode == 1


def test_an_export_that_fails_leaves_no_file(folder: Path) -> None:
    (folder / "talk.jsonl").write_text('{"turns": [{"said": "a"}, {"said": "b"}]}\n')
    assert main(["dataset", "import", "talk.jsonl", "--name", "talk"]) == 0
    assert main(["dataset", "export", "talk", "--format", "csv", "--out", "talk.csv"]) == 1
    assert not list(folder.glob("talk.csv*"))
    assert main(["dataset", "export", "talk", "--out", "no/where.jsonl"]) == 2


def test_a_schema_that_is_no_text_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "schema.json").write_bytes(b"\xff\xfe")
    options = ["--name", "cases", "--schema", "schema.json"]
    assert main(["dataset", "import", "cases.jsonl", *options]) == 2
    assert "not UTF-8" in capsys.readouterr().err


def test_datasets_are_imported_listed_shown_and_exported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dataset", "import", "cases.jsonl", "--name", "cases"]) == 0
    assert "Imported 3 items as version 1 of 'cases'" in capsys.readouterr().out
    assert main(["dataset", "import", "cases.jsonl", "--name", "cases"]) == 0
    assert "Nothing was imported: version 1 of 'cases' already" in capsys.readouterr().out
    with (folder / "cases.jsonl").open("a") as cases:
        cases.write(jsonl({"said": "y", "meant": "Y"}))
    assert main(["dataset", "import", "cases.jsonl", "--name", "cases"]) == 0
    assert "version 2" in capsys.readouterr().out
    assert main(["dataset", "list"]) == 0
    assert "cases" in capsys.readouterr().out
    assert main(["dataset", "show", "cases"]) == 0
    assert "said: string" in capsys.readouterr().out
    # The name of the file tells its format.
    assert main(["dataset", "export", "cases", "--out", "out.csv"]) == 0
    assert main(["dataset", "export", "cases", "--out", "lines.csv", "--format", "jsonl"]) == 0
    assert (folder / "lines.csv").read_text().startswith('{"said":')
    assert (folder / "out.csv").read_text().splitlines() == [
        "said,meant",
        "a,A",
        "b,B",
        "x,X",
        "y,Y",
    ]
    assert main(["dataset", "export", "cases", "--out", "out.csv"]) == 2
    assert main(["dataset", "show", "nothing"]) == 1
    assert "dragoman dataset list" in capsys.readouterr().err


def test_the_mirror_is_made_anew_and_answers_as_before(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", "run", "exp.toml"]) == 0
    capsys.readouterr()
    for _ in range(2):  # of nothing, and of one that is there
        assert main(["lab", "rebuild-mirror"]) == 0
        assert capsys.readouterr().out == "The mirror has been made anew, and is up to date.\n"
        assert (folder / ".dragoman" / "lab.duckdb").is_file()
    assert main(["experiment", "results", "shouting", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 3


def test_an_import_is_told_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["dataset", "import", "cases.jsonl", "--name", "cases", "--json"]
    assert main(command) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["version"], first["items"], first["created"]) == (1, 3, True)
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out) == {**first, "created": False}


def test_lists_without_entries_say_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dataset", "import", "cases.jsonl", "--name", "cases"]) == 0
    assert main(["experiment", "list"]) == 0
    assert "There are no experiments" in capsys.readouterr().out
    assert main(["dataset", "delete", "cases"]) == 0
    assert main(["dataset", "list"]) == 0
    assert "There are no datasets" in capsys.readouterr().out


def test_a_dataset_is_deleted_when_no_experiment_uses_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", "run", "exp.toml"]) == 0
    assert main(["dataset", "import", "cases.jsonl", "--name", "other"]) == 0
    assert main(["dataset", "delete", "other"]) == 0
    assert main(["dataset", "delete", "cases.jsonl"]) == 1
    assert "experiment 'shouting' uses" in capsys.readouterr().err
    assert main(["dataset", "list", "--json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == ["cases.jsonl"]


def test_a_broken_line_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "broken.csv").write_text("a,b\n1,2\n3\n")
    assert main(["dataset", "import", "broken.csv", "--name", "broken"]) == 1
    assert "line 3" in capsys.readouterr().err


# --- starts from elsewhere, and after a crash ---------------------------------------------------


def statuses(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    where = ["--data-dir", str(folder / ".dragoman")]
    assert main(["experiment", "results", "shouting", "--json", *where]) == 0
    return sorted(row["status"] for row in json.loads(capsys.readouterr().out))


def run_apart(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own: it has imported nothing yet."""
    return subprocess.run(
        [DRAGOMAN, *arguments],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_retry_from_another_folder_finds_the_functions_of_the_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    where = ["--data-dir", str(folder / ".dragoman")]
    assert main(["experiment", "run", "exp.toml"]) == 0
    (folder / "mended").touch()
    told = run_apart(
        "experiment", "retry", "shouting", "--mode", "retry_all", *where, cwd=elsewhere
    )
    assert told.returncode == 0, told.stderr
    assert "3 succeeded, 0 failed" in told.stdout


def test_a_retry_without_its_functions_changes_no_row(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", "run", "exp.toml"]) == 0
    before = statuses(folder, capsys)
    next(folder.glob("answers_*.py")).rename(folder / "gone.txt")
    told = run_apart("experiment", "retry", "shouting", "--mode", "retry_all", cwd=folder)
    assert told.returncode != 0
    assert "cannot be imported" in told.stderr
    assert statuses(folder, capsys) == before == ["fail", "success", "success"]


def test_a_retry_exits_by_its_own_outcome(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "run", "exp.toml"]) == 0
    assert main(["experiment", "retry", "shouting"]) == 1, "what it tried failed again"
    (folder / "mended").touch()
    assert main(["experiment", "retry", "shouting"]) == 0


def test_a_retry_with_nothing_to_retry_says_so_and_changes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "mended").touch()
    assert main(["experiment", "run", "exp.toml"]) == 0
    capsys.readouterr()
    assert main(["experiment", "show", "shouting", "--json"]) == 0
    before = capsys.readouterr().out
    assert main(["experiment", "retry", "shouting"]) == 0
    assert "nothing to retry" in capsys.readouterr().out
    assert main(["experiment", "show", "shouting", "--json"]) == 0
    assert capsys.readouterr().out == before


HELD = """
import time
from pathlib import Path

def answer(said):
    with Path(__file__).with_name("calls").open("a") as calls:
        calls.write(said + "\\n")
    while not Path(__file__).with_name("released").exists():
        time.sleep(0.01)
    return said.upper()
"""


def test_a_command_that_was_killed_is_gone_on_with_at_once(folder: Path) -> None:
    next(folder.glob("answers_*.py")).write_text(HELD)
    file = folder / "exp.toml"
    file.write_text(file.read_text().replace("retries = 0", "retries = 1"))
    # No lease runs out during this test.
    env = environment(DRAGOMAN_LAB__LEASE_SECONDS="3600")
    with subprocess.Popen(
        [DRAGOMAN, "experiment", "run", "exp.toml"], cwd=folder, env=env, stdout=subprocess.DEVNULL
    ) as first:
        while len(calls(folder)) < 2:
            assert first.poll() is None
        first.kill()
    (folder / "released").touch()
    told = subprocess.run(
        [DRAGOMAN, "experiment", "run", "exp.toml"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    assert "Resuming shouting" in told.stdout
    assert "3 succeeded, 0 failed" in told.stdout


def test_a_command_says_which_process_it_waits_for(folder: Path) -> None:
    next(folder.glob("answers_*.py")).write_text(HELD)
    env = environment(DRAGOMAN_LAB__LEASE_SECONDS="3600")
    command = [str(DRAGOMAN), "experiment", "run", "exp.toml"]
    with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL) as first:
        while len(calls(folder)) < 2:
            assert first.poll() is None
        with subprocess.Popen(
            command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True
        ) as second:
            assert second.stdout is not None
            lines = [second.stdout.readline(), second.stdout.readline()]
            (folder / "released").touch()
            assert second.wait() == 0
        assert f"process {first.pid}" in lines[1]
        assert first.wait() == 0


def test_repetitions_of_the_command_count_instead_of_those_of_the_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "mended").touch()
    assert main(["experiment", "run", "exp.toml", "--repetitions", "2"]) == 0
    assert sorted(calls(folder)) == ["a", "a", "b", "b", "x", "x"]
    said = capsys.readouterr().out
    assert "6 succeeded" in said
    assert "exact in 2 repetitions" in said
    assert main(["experiment", "results", "shouting"]) == 0
    assert "repetition" in capsys.readouterr().out
    file = folder / "exp.toml"
    plain = read_experiment_file(file).mark
    file.write_text(file.read_text().replace("retries = 0", "retries = 0\nrepetitions = 2"))
    assert read_experiment_file(file).mark == read_experiment_file(file, repetitions=2).mark
    assert read_experiment_file(file, repetitions=1).mark == plain


def test_stored_outputs_are_scored_by_the_evaluators_of_a_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "mended").touch()
    assert main(["experiment", "run", "exp.toml"]) == 0
    called = calls(folder)
    (folder / "more.toml").write_text(
        '[[evaluators]]\nkind = "contains"\nname = "has it"\nreference = "meant"\n'
    )
    capsys.readouterr()
    assert main(["experiment", "score", "shouting", "--evaluators", "more.toml"]) == 0
    said = capsys.readouterr().out
    assert "has it" in said
    assert "exact" in said
    assert calls(folder) == called
    (folder / "none.toml").write_text('name = "x"\n')
    (folder / "wrong.toml").write_text('[[evaluators]]\nkind = "exact"\nreferense = "meant"\n')
    for file, reason in (
        ("none.toml", "has no [[evaluators]]"),
        ("wrong.toml", "did you mean 'reference'"),
        ("nowhere.toml", "cannot be read"),
    ):
        assert main(["experiment", "score", "shouting", "--evaluators", file]) == 2, file
        assert reason in capsys.readouterr().err


def test_cached_answers_are_used_when_asked_for_and_can_be_cleared(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "mended").touch()
    for _ in range(2):
        assert main(["experiment", "run", "exp.toml", "--cache"]) == 0
    assert sorted(calls(folder)) == ["a", "b", "x"], "the second run asked nothing"
    assert main(["experiment", "run", "exp.toml", "--new"]) == 0
    assert len(calls(folder)) == 6, "without the option every answer is asked for"
    file = folder / "exp.toml"
    file.write_text(file.read_text().replace("retries = 0", "retries = 0\ncache = true"))
    assert main(["experiment", "run", "exp.toml", "--new"]) == 0
    assert len(calls(folder)) == 6, "the file may ask for it too"
    capsys.readouterr()
    assert main(["experiment", "results", "shouting #2", "--json"]) == 0
    assert all(row["cached"] for row in json.loads(capsys.readouterr().out))
    assert main(["experiment", "clear-cache"]) == 0
    assert capsys.readouterr().out == "3 cached answers were removed.\n"
    assert main(["experiment", "run", "exp.toml", "--new"]) == 0
    assert len(calls(folder)) == 9
