"""``dragoman experiment annotate`` and ``result.annotate``; judges measured against people."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.servers.openai_server import OpenAiServer

from dragoman import lab
from dragoman.cli import main
from dragoman.errors import InvalidMessage, NotFound

WORDS = [f"good {n}" if n % 2 else f"poor {n}" for n in range(12)]
ROWS = [{"said": word} for word in WORDS]

EXPERIMENT = """
name = "words"
[dataset]
file = "cases.jsonl"
[target]
kind = "recorded"
output = "said"
[[evaluators]]
kind = "contains"
reference = "said"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "exp.toml").write_text(EXPERIMENT)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["experiment", *arguments]) == code
    said = capsys.readouterr()
    return said.out if code == 0 else said.err


def items(capsys: pytest.CaptureFixture[str]) -> list[str]:
    rows = json.loads(told(capsys, "results", "words", "--json"))
    return [row["item_id"] for row in rows]


def test_a_person_annotates_a_row_changes_it_and_takes_it_back(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "12 succeeded" in told(capsys, "run", "exp.toml")
    item = items(capsys)[0]
    said = ["annotate", "words", item, "--name", "right"]
    assert told(capsys, *said, "--label", "pass", "--score", "1").startswith("annotated: a-")
    assert told(capsys, *said, "--label", "fail").startswith("changed: a-")
    assert told(capsys, *said, "--label", "pass", "--annotator", "bob").startswith("annotated")
    listed = json.loads(told(capsys, "annotations", "words", "--json"))
    assert [(one["label"], one["score"]) for one in listed] == [("fail", None), ("pass", None)]
    shown = told(capsys, "annotations", "words")
    assert "bob" in shown
    summary = told(capsys, "show", "words")
    assert "annotations right: 2 people on 1 row" in summary
    assert "not known" not in summary
    stars = ["annotate", "words", said[2], "--name", "stars", "--score", "4"]
    told(capsys, *stars)
    summary = told(capsys, "show", "words")
    assert "stars: 1 person on 1 row; too few to tell how far evaluators agree" in summary
    assert told(capsys, *stars[:5], "--remove") == "removed\n"
    assert told(capsys, *said, "--remove") == "removed\n"
    assert "said nothing under 'right'" in told(capsys, *said, "--remove", code=1)
    assert len(json.loads(told(capsys, "annotations", "words", "--json"))) == 1
    assert "has no row" in told(
        capsys, "annotate", "words", "i-none", "--name", "n", "--score", "1", code=1
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["words"],
        ["words", "i-1", "--score", "1"],
        ["words", "i-1", "--name", "n"],
        ["words", "i-1", "--name", "n", "--score", "high"],
        ["words", "i-1", "--name", "n", "--score", "1", "--remove"],
        ["words", "i-1", "--name", "n", "--score", "1", "--turn", "-1"],
        ["words", "i-1", "--name", "n", "--file", "x.csv"],
        ["words", "--file", "x.csv", "--score", "1"],
        ["words", "--file", "nowhere.csv"],
    ],
)
def test_a_command_that_cannot_be_meant_is_refused(
    folder: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    told(capsys, "run", "exp.toml")
    told(capsys, "annotate", *arguments, code=2)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_file_of_annotations_is_taken_whole_or_not_at_all(
    folder: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told(capsys, "run", "exp.toml")
    names = items(capsys)
    file = folder / f"people.{kind}"
    if kind == "csv":
        lines = [f"{item},4.5,,ann,{'' if n else '0'}" for n, item in enumerate(names)]
        lines[2] = f'{names[2]},,"so, so",bob,'
        file.write_text("item_id,score,label,annotator,turn\n" + "\n".join(lines) + "\n")
    else:
        rows: list[dict[str, Any]] = [
            {"item_id": item, "score": 4.5, "annotator": "ann"} for item in names
        ]
        rows[2] = {"item_id": names[2], "label": "so, so", "annotator": "bob"}
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    answer = told(capsys, "annotate", "words", "--file", str(file), "--name", "quality")
    assert answer == "12 annotated, 0 changed.\n"
    listed = json.loads(told(capsys, "annotations", "words", "--json"))
    assert sorted({one["annotator"] for one in listed}) == ["ann", "bob"]
    [bobs] = [one for one in listed if one["annotator"] == "bob"]
    assert (bobs["item_id"], bobs["label"], bobs["score"]) == (names[2], "so, so", None)
    again = told(capsys, "annotate", "words", "--file", str(file), "--name", "quality")
    assert again == "0 annotated, 12 changed.\n"

    broken = {"csv": f"{names[0]},high,,ann,\n", "jsonl": '{"item_id": 7}\n'}[kind]
    with file.open("a") as more:
        more.write(broken)
    said = told(capsys, "annotate", "words", "--file", str(file), "--name", "other", code=2)
    assert f"line {14 if kind == 'csv' else 13}" in said
    unknown = {"csv": "item_id,colour\nx,red\n", "jsonl": '{"item_id": "x", "colour": "red"}\n'}
    file.write_text(unknown[kind])
    said = told(capsys, "annotate", "words", "--file", str(file), "--name", "other", code=2)
    assert "colour" in said
    assert len(json.loads(told(capsys, "annotations", "words", "--json"))) == 12


def judged(server: OpenAiServer, experiment: str, **changes: Any) -> lab.RunResult:
    return lab.run(
        dataset=ROWS,
        target=lab.recorded(output="said"),
        evaluators=[
            lab.llm_judge(
                url=server.url,
                model="rubric-judge",
                **{"rubric": "Is it good?", "pass_from": 3.0, "name": "good", **changes},
            )
        ],
        data_dir="data",
        name=experiment,
    )


def calibration_of(result: lab.RunResult) -> Any:
    """What the aggregates tell of the judge now."""
    return result.aggregates().scores[next(iter(result.summary.scores))].calibration


def test_a_judge_is_measured_against_people_wherever_it_judges(folder: Path) -> None:
    with OpenAiServer() as server:
        result = judged(server, "first")
        assert result.summary.scores["good"].calibration is None
        assert "judge good: not calibrated; annotate at least 10" in str(result.summary)
        rows = result.rows()
        # People agree with the judge on ten rows of twelve: 5 pass and 5 fail of its 6 and 6.
        for number, row in enumerate(rows):
            label = row.scores["good"].label
            if number in (0, 1):
                label = "fail" if label == "pass" else "pass"
            result.annotate(row, name="good", label=label, annotator="ann")
        found = calibration_of(result)
        assert (found.annotation, found.rows, found.model) == ("good", 12, "rubric-judge")
        assert found.kappa == pytest.approx((10 / 12 - 0.5) / 0.5)
        assert found.experiment_id == result.experiment_id
        assert len(found.prompt) == 64
        assert result.agreement()["good"].evaluators["good"].kappa == found.kappa
        with sqlite3.connect(folder / "data" / "dragoman.db") as database:
            stored = database.execute(
                "SELECT fingerprint, model, prompt, compared, kappa FROM calibration"
            ).fetchall()
        assert stored == [(found.fingerprint, "rubric-judge", found.prompt, 12, found.kappa)]

        again = judged(server, "again")
        assert again.summary.scores["good"].calibration == found, "the same judge is known"
        assert "judge good: agreement with people (good): kappa 0.667" in str(again.summary)
        other = judged(server, "another", rubric="Is it really good?")
        assert other.summary.scores["good"].calibration is None, "another rubric, another judge"
        renamed = judged(server, "renamed", name="fluent")
        assert renamed.summary.scores["fluent"].calibration == found

        # A judge that judges stored outputs is measured by what people said of them before.
        rescored = result.score(
            [
                lab.llm_judge(
                    url=server.url,
                    model="rubric-judge",
                    rubric="Rate it.",
                    pass_from=3.0,
                    name="second",
                )
            ]
        )
        second = rescored.summary.scores["second"].calibration
        assert isinstance(second, lab.Calibration)
        assert second.kappa == found.kappa
        assert second.fingerprint != found.fingerprint
        assert "judge" not in str(lab_plain(folder).summary), "an evaluator that is no judge"


def lab_plain(folder: Path) -> lab.RunResult:
    return lab.run(
        dataset=ROWS,
        target=lab.recorded(output="said"),
        evaluators=[lab.exact(reference="said")],
        data_dir="data",
        name="plain",
    )


def test_what_is_taken_back_calibrates_no_judge(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with OpenAiServer() as server:
        result = judged(server, "first")
        for row in result.rows():
            result.annotate(row, name="good", score=row.scores["good"].score, annotator="ann")
        found = calibration_of(result)
        assert (found.rows, found.spearman, found.kappa) == (12, pytest.approx(1.0), None)
        for row in result.rows(limit=3):
            said = ["annotate", "first", row.item_id, "--name", "good", "--annotator", "ann"]
            assert told(capsys, *said, "--remove", "--data-dir", "data") == "removed\n"
        few = calibration_of(result)
        assert few.rows == 9
        assert "not calibrated, which takes 10 rows" in told(
            capsys, "show", "first", "--data-dir", "data"
        )


def test_a_program_annotates_rows_and_items(folder: Path) -> None:
    result = lab_plain(folder)
    row = result.rows()[3]
    first = result.annotate(row, name="fix", correction="better")
    assert result.annotate(row.item_id, name="fix", correction="best") == first
    [found] = result.rows({"field": "annotation.fix", "op": "=", "value": "best"})
    assert found.item_id == row.item_id
    assert [said.correction for said in found.annotations] == ["best"]
    table = result.to_pandas()
    assert table["annotation.fix"].tolist().count("best") == 1
    with pytest.raises(NotFound):
        result.annotate("i-none", name="n", score=1)
    with pytest.raises(InvalidMessage, match="neither a score"):
        result.annotate(row, name="n")


GATED = """
name = "gated"
[dataset]
file = "cases.jsonl"
[target]
kind = "recorded"
output = "said"
[[evaluators]]
kind = "llm_judge"
name = "good"
url = "{url}"
model = "rubric-judge"
rubric = "Is it good?"
pass_from = 3
[gate]
"good.mean" = ">= 2"
{more}
"""


def test_a_gate_on_a_judge_warns_until_people_have_measured_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with OpenAiServer() as server:

        def gated(more: str, code: int) -> str:
            (folder / "gated.toml").write_text(GATED.format(url=server.url, more=more))
            capsys.readouterr()
            assert main(["experiment", "run", "gated.toml"]) == code
            return capsys.readouterr().out

        assert "gate warning: judge good calibrated: not calibrated; annotate" in gated("", 0)
        said = gated("require_calibrated = true", 1)
        assert "gate FAILED: judge good calibrated: not calibrated" in said
        assert "gate passed: good.mean >= 2" in said
        rows = json.loads(told(capsys, "results", "gated", "--json"))
        labels = [
            {
                "item_id": row["item_id"],
                "name": "good",
                # Wrong once, so that the agreement is not perfect.
                "label": "fail" if number == 1 else row["scores"]["good"]["label"],
            }
            for number, row in enumerate(rows)
        ]
        (folder / "people.jsonl").write_text("".join(json.dumps(row) + "\n" for row in labels))
        told(capsys, "annotate", "gated", "--file", "people.jsonl")
        # Another experiment, the same judge.
        said = gated("require_calibrated = true", 0)
        assert "gate passed: judge good calibrated: agreement with people (good): kappa" in said
        assert "gate FAILED: judge good" in gated("require_calibrated = 0.99", 1)
        assert "good is given by a judge: agreement with people (good): kappa" in told(
            capsys, "compare", "gated", "gated #2"
        )
        first, second = "gated", "gated #2"
        compared = lab.compare(first, second, data_dir=".dragoman")
        compared.assert_not_worse("good", require_calibrated=0.5)
        with pytest.raises(AssertionError, match="given by a judge"):
            compared.assert_not_worse("good", require_calibrated=0.99)
        (folder / "other.toml").write_text(
            GATED.format(url=server.url, more="").replace("Is it good?", "Rate it.")
        )
        for _ in range(2):
            assert main(["experiment", "run", "other.toml", "--new"]) == 0
    names = [one["name"] for one in json.loads(told(capsys, "list", "--json"))]
    compared = lab.compare(names[1], names[0], data_dir=".dragoman")
    with pytest.warns(UserWarning, match="not calibrated; annotate at least 10"):
        compared.assert_not_worse("good")


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ('require_calibrated = "yes"', "write true, or the agreement"),
        ("require_calibrated = 2", "write true, or the agreement"),
        ("require_calibrated = 0", "write true, or the agreement"),
        ("require_calibratd = true", "did you mean require_calibrated?"),
    ],
)
def test_a_gate_that_cannot_be_read_is_refused_before_anything_runs(
    folder: Path, more: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "gated.toml").write_text(GATED.format(url="http://127.0.0.1:9/v1", more=more))
    assert word in told(capsys, "run", "gated.toml", code=2)


def test_a_gate_without_judges_cannot_require_them_to_be_calibrated(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "exp.toml").write_text(f"{EXPERIMENT}[gate]\nrequire_calibrated = true\n")
    assert "has no judge to hold to it" in told(capsys, "run", "exp.toml", code=2)
