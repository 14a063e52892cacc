"""``dragoman init experiment``: a file for what is at hand, which runs as it is."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]
import pytest

from dragoman.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "experiment_target", raising=False)
    return tmp_path


def write(name: str, rows: list[dict[str, Any]]) -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def written(name: str = "experiment.toml") -> dict[str, Any]:
    return tomllib.loads(Path(name).read_text())


def runs() -> bool:
    return main(["experiment", "run", "experiment.toml"]) == 0


def test_a_dataset_with_outputs_is_scored_as_it_is() -> None:
    write("cases.jsonl", [{"question": "a \x7f", "expected": "b c d", "said": "b c d"}] * 2)
    assert main(["init", "experiment"]) == 0
    found = written()
    assert found["dataset"]["file"] == "cases.jsonl"
    assert found["target"] == {"kind": "recorded", "output": "said"}
    assert {one["reference"] for one in found["evaluators"]} == {"expected"}
    assert runs()


def test_a_dataset_without_outputs_gets_a_function_to_fill_in(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pq.write_table(pa.table({"n": [1, 2], "source": ["a", "b"], "answer": ["a", "c"]}), "d.parquet")
    assert main(["init", "experiment", "--dataset", "d.parquet"]) == 0
    assert written()["target"] == {"kind": "python", "function": "experiment_target:answer"}
    assert "def answer(source):" in Path("experiment_target.py").read_text()
    assert runs()
    assert "2 succeeded, 0 failed" in capsys.readouterr().out


def test_with_nothing_at_hand_there_is_a_sample(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "experiment"]) == 0
    assert written()["target"] == {"kind": "recorded", "output": "word_by_word"}
    assert runs()
    assert "120 succeeded, 0 failed" in capsys.readouterr().out


def test_no_file_is_overwritten_and_nothing_is_half_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write("cases.jsonl", [{"source": "a", "reference": "a"}])
    Path("experiment_target.py").write_text("mine")
    assert main(["init", "experiment"]) == 2
    assert "experiment_target.py exists already" in capsys.readouterr().err
    assert not Path("experiment.toml").exists()
    assert Path("experiment_target.py").read_text() == "mine"
    assert main(["init", "experiment", "--out", "other.toml"]) == 0
    assert main(["init", "experiment", "--out", "other.toml"]) == 2


def test_what_cannot_be_decided_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    write("a.jsonl", [{"x": 1}])
    write("b.jsonl", [{"x": 1}])
    assert main(["init", "experiment"]) == 2
    assert "several datasets here (a.jsonl, b.jsonl)" in capsys.readouterr().err
    assert main(["init", "experiment", "--dataset", "a.jsonl", "--target", "magic"]) == 2
    assert "no target of kind 'magic'; known are" in capsys.readouterr().err
    Path("a.jsonl").write_text("nonsense\n")
    assert main(["init", "experiment", "--dataset", "a.jsonl"]) == 1
    assert "line 1" in capsys.readouterr().err
    assert main(["init", "experiment", "--dataset", "b.jsonl", "--target", "http"]) == 0
    assert "Fill in the settings of [target] first" in capsys.readouterr().out
    assert written()["target"]["kind"] == "http"


def test_columns_that_name_sound_files_are_audio() -> None:
    Path("one.wav").write_bytes(b"RIFF\0\0\0\0WAVE")
    write("cases.jsonl", [{"speech": "one.wav", "reference": "one"}])
    assert main(["init", "experiment"]) == 0
    assert written()["dataset"]["audio"] == ["speech"]
    Path("experiment_target.py").write_text("def answer(speech):\n    return speech.name[:-4]\n")
    assert runs()
