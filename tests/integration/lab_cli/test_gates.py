"""Gates of experiment files: what fails exits with 1 and says which row to look at."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from dragoman.cli import main

COUNT = 40

EXPERIMENT = """
name = "{name}"
[dataset]
file = "cases.jsonl"
[target]
kind = "recorded"
output = "{output}"
[[evaluators]]
kind = "wer"
reference = "meant"
[[evaluators]]
kind = "exact"
reference = "meant"
[gate]
{gate}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a dataset that has the outputs of a good system and of a bad one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRAGOMAN_CONFIG", raising=False)
    rows = [
        {
            "meant": f"one two three {number}",
            "good": f"one two three {number}" if number % 10 else "one two three",
            "bad": "nothing of the kind" if number == 21 else f"one two {number}",
        }
        for number in range(COUNT)
    ]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def run(folder: Path, gate: str, *, output: str = "good", name: str = "gated") -> int:
    text = EXPERIMENT.format(name=name, output=output, gate=gate)
    (folder / "exp.toml").write_text(text)
    return main(["experiment", "run", "exp.toml"])


def test_a_failing_gate_exits_with_1_and_names_the_worst_row(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = [
        '"wer.mean" = "<= 0.1"',
        '"wer.p95" = "<= 0.3"',
        '"wer.ci95.high" = "<= 0.35"',
        '"wer.ci95.low" = ">= 0.2"',
        '"wer.corpus" = "<= 0.28"',
        '"wer.outcomes.scored" = "= 40"',
        '"exact.pass_rate_ci95.high" = "<= 0.1"',
        '"failures.items" = "= 0"',
    ]
    assert run(folder, "\n".join(gate), output="bad") == 1
    told = capsys.readouterr().out
    assert "gate FAILED: wer.mean <= 0.1: it is " in told
    assert told.count("gate FAILED: ") == 1
    assert told.count("gate passed: ") == len(gate)
    assert main(["experiment", "results", "gated", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    [worst] = [row for row in rows if row["output"]["output"] == "nothing of the kind"]
    assert f"  look first at item {worst['item_id']}: wer 1, output 'nothing of the kind'" in told


def test_a_run_that_is_worse_than_the_last_fails_and_names_the_biggest_loss(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = '"wer" = "not worse than last"\n"wer.corpus" = "not worse than last by 0.02"'
    assert run(folder, gate) == 0
    told = capsys.readouterr().out
    assert "gate inconclusive: wer not worse than last: there is no finished run before" in told
    assert run(folder, gate + '\n"failures" = "not worse than last by 0.01"') == 0
    told = capsys.readouterr().out
    assert "gate passed: wer not worse than last: wer is not worse: " in told
    assert "gate passed: failures not worse than last by 0.01: " in told
    assert run(folder, gate, output="bad") == 1
    told = capsys.readouterr().out
    assert "gated #3 against gated #2: 40 items paired" in told
    assert "gate FAILED: wer not worse than last: wer is significantly worse: " in told
    assert "gate FAILED: wer.corpus not worse than last by 0.02: wer.corpus is worse by " in told
    assert main(["experiment", "results", "gated #3", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    [worst] = [row for row in rows if row["output"]["output"] == "nothing of the kind"]
    assert f"  look first at item {worst['item_id']}: wer was 0, is 1" in told


def test_a_named_baseline_must_exist_before_anything_is_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, "max_failed = 0", name="system A") == 0
    capsys.readouterr()
    assert run(folder, '"wer" = "not worse than \'system B\' by 0.1"') == 2
    assert "the gate compares with 'system B'" in capsys.readouterr().err
    assert run(folder, '"wer" = "not worse than \'system A\' by 0.1"', output="bad") == 1
    assert "gate FAILED: wer not worse than 'system A' by 0.1" in capsys.readouterr().out


def test_a_run_that_a_gate_names_must_exist_before_anything_is_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, "max_failed = 0", name="system A") == 0
    capsys.readouterr()
    unknown = "r-" + "0" * 24
    assert run(folder, f'"wer" = "not worse than \'{unknown}\' by 0.1"') == 2
    told = capsys.readouterr()
    assert f"the gate compares with '{unknown}'. No experiment has" in told.err
    assert main(["experiment", "list", "--json"]) == 0
    [there] = json.loads(capsys.readouterr().out)
    assert there["name"] == "system A"
    known = there["run_id"]
    assert run(folder, f'"wer" = "not worse than \'{known}\' by 0.1"', output="bad") == 1
    assert f"gate FAILED: wer not worse than '{known}' by 0.1" in capsys.readouterr().out


def test_a_score_of_ones_own_says_that_less_is_better(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    functions = "def missing(meant, output):\n    return len(meant.split()) - len(output.split())\n"
    (folder / "errors_of_mine.py").write_text(functions)
    kinds = {
        "by code": 'kind = "code"\ncode = "len(meant.split()) - len(output.split())"',
        "by function": 'kind = "python"\nfunction = "errors_of_mine:missing"',
    }
    for name, kind in kinds.items():
        evaluator = f'{kind}\nname = "missing"\nhigher_is_better = false'
        text = EXPERIMENT.replace('kind = "exact"\nreference = "meant"', evaluator)
        gate = '"missing" = "not worse than last"'
        codes = []
        for output in ("good", "bad", "good"):
            written = text.format(name=name, output=output, gate=gate)
            (folder / "exp.toml").write_text(written)
            codes.append(main(["experiment", "run", "exp.toml"]))
        told = capsys.readouterr().out
        assert codes == [0, 1, 0], told
        assert "gate FAILED: missing not worse than last: missing is significantly worse" in told


def test_too_few_items_are_inconclusive_which_fails_only_where_the_gate_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, "max_failed = 0", name="system A") == 0
    capsys.readouterr()
    # The bad system loses a quarter of the words, and one output whole.
    gate = '"wer" = "not worse than \'system A\' by 0.25"'
    assert run(folder, gate, output="bad") == 0
    told = capsys.readouterr().out
    assert "gate inconclusive: wer not worse than 'system A' by 0.25" in told
    assert "more would decide" in told
    assert run(folder, f'{gate}\non_inconclusive = "fail"', output="bad") == 1
    assert "gate FAILED: wer not worse than 'system A' by 0.25" in capsys.readouterr().out


def test_a_gate_whose_evaluator_changed_fails_by_what_differs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = '"exact" = "not worse than last"'
    assert run(folder, gate) == 0
    text = (folder / "exp.toml").read_text()
    changed = text.replace('kind = "exact"', 'kind = "exact"\nignore_case = true')
    (folder / "exp.toml").write_text(changed)
    capsys.readouterr()
    assert main(["experiment", "run", "exp.toml"]) == 1
    told = capsys.readouterr().out
    assert "settings.ignore_case is false in one and true in the other" in told


ANSWER = """
import time

def answer(meant):
    if meant.endswith(" 3"):
        raise ValueError("three is too many")
    if meant.endswith(" 5"):
        time.sleep(0.2)
    return meant
"""


def test_gates_on_latency_and_on_failures_name_their_rows_too(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    module = f"answers_{folder.name.replace('-', '_')}"
    (folder / f"{module}.py").write_text(ANSWER)
    text = EXPERIMENT.format(name="slow", output="", gate='"latency_ms.max" = "< 100"')
    recorded = 'kind = "recorded"\noutput = ""'
    python = f'kind = "python"\nfunction = "{module}:answer"'
    text = text.replace(recorded, python).replace("[gate]", "[run]\nretries = 0\n[gate]")
    (folder / "exp.toml").write_text(text)
    assert main(["experiment", "run", "exp.toml"]) == 1
    told = capsys.readouterr().out
    assert main(["experiment", "results", "slow", "--json"]) == 0
    rows = {row["input"]["meant"]: row for row in json.loads(capsys.readouterr().out)}
    slow, failed = rows["one two three 5"], rows["one two three 3"]
    assert "gate FAILED: latency_ms.max < 100: it is " in told
    assert f"  look first at item {slow['item_id']}: latency_ms " in told
    assert "gate FAILED: max_failed <= 0: it is 0.025" in told
    assert f"  look first at item {failed['item_id']}: TARGET_ERROR, " in told
    assert "three is too many" in told
