"""Comparing experiments in a program, and with ``dragoman experiment compare``."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from dragoman import lab
from dragoman.cli import main
from dragoman.errors import ExtraMissing, InvalidMessage
from dragoman.lab.repository.pairing import ITEMS_AT_ONCE
from dragoman.lab.samples import EXPERIMENTS, samples_folder

COUNT = 24
ROWS: list[dict[str, lab.JsonValue]] = [
    {"number": n, "meant": "a b c d", "pair": n // 2} for n in range(COUNT)
]


def perfect(meant: str) -> str:
    return meant


def forgetful(meant: str, number: int) -> str:
    """Loses a word now and then, and all of it once."""
    if number == 7:
        return "<b>nothing</b> | *at all*"
    return meant if number % 3 else "a b c"


def run(target: lab.Function, data_dir: Path, name: str | None = None) -> lab.RunResult:
    evaluators = [
        lab.wer(reference="meant"),
        lab.exact(reference="meant"),
        lab.length_ratio(reference="meant"),
    ]
    return lab.run(dataset=ROWS, target=target, evaluators=evaluators, data_dir=data_dir, name=name)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[lab.RunResult, lab.RunResult]:
    folder = tmp_path_factory.mktemp("lab")
    return run(perfect, folder), run(forgetful, folder)


def test_a_worse_system_fails_an_assertion_that_says_what_a_person_needs(
    both: tuple[lab.RunResult, lab.RunResult],
) -> None:
    good, bad = both
    found = lab.compare(good, bad)
    with pytest.raises(AssertionError) as failed:
        found.assert_not_worse("wer")
    told = str(failed.value)
    assert "wer is significantly worse: " in told
    assert "in 'forgetful' against 0 in 'perfect'" in told
    assert f"over {COUNT} paired turns" in told
    [worst] = [row for row in bad.rows() if row.input["number"] == 7]
    assert f"Look first at item {worst.item_id}: wer was 0, is " in told
    with pytest.raises(AssertionError, match=r"Look first at item i-\w+: exact was 1, is 0"):
        found.assert_not_worse("exact")
    with pytest.raises(AssertionError, match=r"wer\.corpus is worse by more than 0\.01"):
        found.assert_not_worse("wer.corpus", margin=0.01)
    found.assert_not_worse("wer", margin=1.0)
    lab.compare(bad, good).assert_not_worse("wer")
    lab.compare(bad, good).assert_not_worse("exact", margin=0.05)


def test_what_cannot_be_told_warns_and_says_how_many_items_would_do(
    both: tuple[lab.RunResult, lab.RunResult],
) -> None:
    found = lab.compare(*both)
    wer = found.others[0].scores["wer"]
    assert wer.delta is not None
    margin = wer.delta * 1.1
    with pytest.warns(UserWarning, match=r"wer may be worse by more than .* more would decide"):
        found.assert_not_worse("wer", margin=margin)
    with pytest.raises(AssertionError, match="more would decide"):
        found.assert_not_worse("wer", margin=margin, on_inconclusive="fail")
    [judged] = found.judge("wer", margin=margin)
    assert judged.more_items is not None
    assert judged.more_items > 0


def test_a_question_that_makes_no_sense_is_refused(
    both: tuple[lab.RunResult, lab.RunResult], tmp_path: Path
) -> None:
    found = lab.compare(*both)
    with pytest.raises(InvalidMessage, match="did you mean 'exact'"):
        found.assert_not_worse("exakt")
    with pytest.raises(InvalidMessage, match="Neither end of length_ratio"):
        found.assert_not_worse("length_ratio")
    with pytest.raises(InvalidMessage, match="exact has no corpus score"):
        found.assert_not_worse("exact.corpus")
    with pytest.raises(InvalidMessage, match="margin"):
        found.assert_not_worse("exact", margin=0)
    with pytest.raises(InvalidMessage, match="alpha"):
        found.assert_not_worse("exact", alpha=1)
    elsewhere = run(perfect, tmp_path)
    with pytest.raises(InvalidMessage, match="different data folders"):
        lab.compare(both[0], elsewhere)


def test_an_evaluator_whose_function_changed_is_not_compared(tmp_path: Path) -> None:
    def length(output: str) -> float:
        return float(len(output))

    first = lab.run(dataset=ROWS, target=perfect, evaluators=[length], data_dir=tmp_path)

    def changed(output: str) -> float:
        return float(len(output)) * 2

    changed.__name__ = "length"
    second = lab.run(dataset=ROWS, target=perfect, evaluators=[changed], data_dir=tmp_path)
    found = lab.compare(first, second)
    assert "source" in " ".join(found.others[0].refused["length"])
    with pytest.raises(InvalidMessage, match="length was not compared, because it was not scored"):
        found.assert_not_worse("length")


def test_scores_of_another_version_of_a_library_are_not_compared(tmp_path: Path) -> None:
    first, second = run(perfect, tmp_path), run(forgetful, tmp_path)
    assert set(lab.compare(first, second).others[0].scores) == {"wer", "exact", "length_ratio"}
    file = urlsplit(first.database_url).path

    def kept_as(change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
        with sqlite3.connect(file) as database:
            (text,) = database.execute(
                "SELECT fingerprints_json FROM run_log WHERE id = ?", [first.run_id]
            ).fetchone()
            changed = change(json.loads(text))
            database.execute(
                "UPDATE run_log SET fingerprints_json = ? WHERE id = ?",
                [None if changed is None else json.dumps(changed), first.run_id],
            )
        database.close()

    def older(prints: dict[str, Any]) -> dict[str, Any]:
        prints["wer"]["parts"]["libraries"]["jiwer"] = "0.1"
        prints["wer"]["hash"] = "another"
        return prints

    kept_as(older)
    [compared] = lab.compare(first, second).others
    assert compared.refused["wer"][0].startswith("libraries.jiwer is 0.1 in one and ")
    assert set(compared.scores) == {"exact", "length_ratio"}
    kept_as(lambda prints: None)
    [compared] = lab.compare(first, second).others
    assert compared.scores == {}
    assert f"{first.run_id} does not tell how it scored" in compared.refused["exact"][0]


def test_one_result_alone_is_compared_with_the_last(tmp_path: Path) -> None:
    run(perfect, tmp_path, name="same")
    second = run(forgetful, tmp_path, name="same")
    found = lab.compare(second)
    assert (found.baseline.name, found.others[0].name) == ("same", "same #2")


def test_more_items_than_are_read_at_once_are_compared_whole(tmp_path: Path) -> None:
    count = 2 * ITEMS_AT_ONCE + 7
    rows: list[dict[str, lab.JsonValue]] = [
        {"meant": str(n), "one": str(n), "other": str(n) if n % 4 else "wrong"}
        for n in range(count)
    ]
    results = [
        lab.run(
            dataset=rows,
            target=lab.recorded(output=column),
            evaluators=[lab.exact(reference="meant")],
            name=column,
            concurrency=100,
            data_dir=tmp_path,
        )
        for column in ("one", "other")
    ]
    exact = lab.compare(*results).others[0].scores["exact"]
    assert exact.paired == count
    assert (exact.wins, exact.losses) == (0, len(range(0, count, 4)))
    assert exact.left_out == lab.LeftOut()
    assert exact.ties == count - exact.losses


def test_a_comparison_is_a_table_a_picture_and_a_page(
    both: tuple[lab.RunResult, lab.RunResult],
) -> None:
    async def in_a_loop() -> lab.Comparison:
        return lab.compare(*both, cluster="pair")

    found = asyncio.run(in_a_loop())
    table = found.to_pandas()
    assert list(table["figure"][:2]) == ["wer", "wer.corpus"]
    assert set(table["units"]) == {COUNT // 2}
    drawing = ET.fromstring(found.plot().svg)
    assert drawing.tag.endswith("svg")
    page = found._repr_html_()
    assert "forgetful against perfect" in page
    assert "<b>nothing</b>" not in page
    report = found.to_markdown("plot.svg")
    assert "![Differences with 95 % intervals](plot.svg)" in report
    assert "\\<b\\>nothing" in report.replace("**", "")
    assert "worse" in str(found)


def test_a_result_is_shown_in_notebooks(both: tuple[lab.RunResult, lab.RunResult]) -> None:
    _, bad = both
    assert "<td>wer</td>" in bad._repr_html_()
    drawing = ET.fromstring(bad.plot().svg)
    bars = [one for one in drawing.iter() if one.tag.endswith("rect") and len(one)]
    assert bars
    assert len(bad.to_pandas()) == COUNT
    if find_spec("polars") is None:
        with pytest.raises(ExtraMissing, match="pip install polars"):
            bad.to_polars()
    else:
        assert bad.to_polars().height == COUNT


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the English-Spanish samples."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRAGOMAN_CONFIG", raising=False)
    for name in ("en-es.jsonl", *EXPERIMENTS[:2]):
        (tmp_path / name).write_bytes((samples_folder() / name).read_bytes())
    return tmp_path


def test_without_the_extra_only_a_second_run_says_that_it_was_not_compared(
    samples: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first run has nothing to be compared with, and needs no extra for that."""

    def missing(extra: str, wanted_by: str, modules: object = None) -> None:
        raise ExtraMissing(f"{wanted_by} needs dragoman[{extra}].")

    monkeypatch.setattr("dragoman.lab.comparison.service.require_extra", missing)
    assert main(["experiment", "run", EXPERIMENTS[0]]) == 0
    assert "not compared" not in capsys.readouterr().err
    assert main(["experiment", "run", EXPERIMENTS[0]]) == 0
    assert "not compared" in capsys.readouterr().err


def test_the_samples_run_twice_and_the_second_is_compared_with_the_first(
    samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = EXPERIMENTS[:2]
    assert main(["experiment", "run", first]) == 0
    assert " against " not in capsys.readouterr().out
    assert main(["experiment", "run", first]) == 0
    told = capsys.readouterr().out
    name = "sample en-es: word by word"
    assert f"{name} #2 against {name}: 120 items paired" in told
    assert "0/0/120  equal" in told
    # A changed file is another experiment of the same name, and compares as well.
    written = (samples / first).read_text()
    (samples / first).write_text(written.replace('"word_by_word"', '"phrases_first"'))
    assert main(["experiment", "run", first]) == 0
    told = capsys.readouterr().out
    assert f"{name} #3 against {name} #2: 120 items paired" in told
    assert "better" in told

    assert main(["experiment", "run", second]) == 0
    capsys.readouterr()
    report = ["--report", "compared.md", "--cluster", "document", "--rows", "3"]
    assert main(["experiment", "compare", name, "sample en-es: phrases first", *report]) == 0
    told = capsys.readouterr().out
    assert "sample en-es: phrases first against sample en-es: word by word: 120 items" in told
    assert "With 120 items in 20 groups a difference below " in told
    assert "Biggest losses in chrf:" in told
    assert "![Differences with 95 % intervals](compared.svg)" in Path("compared.md").read_text()
    ET.parse("compared.svg")

    hard = json.dumps({"field": "score.chrf", "op": "<", "value": 40})
    asked = ["experiment", "compare", name, f"{name} #3", "--json", "--filter", hard]
    assert main(asked) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 < found["others"][0]["scores"]["chrf"]["paired"] < 120
    assert main(["experiment", "compare", name, "nothing"]) == 1
    assert "'nothing'" in capsys.readouterr().err


def test_a_comparison_that_only_warns_is_no_failure(
    both: tuple[lab.RunResult, lab.RunResult],
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lab.compare(*reversed(both)).assert_not_worse("wer")
