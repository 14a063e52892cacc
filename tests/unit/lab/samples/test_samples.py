"""The samples: as many as promised, of the origin that they state, and ready to run."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli import main
from dragoman.lab.evaluators import EVALUATORS
from dragoman.lab.samples import EXPERIMENTS, samples_folder
from dragoman.lab.samples.systems import PAIRS, SYSTEMS, with_outputs


def rows(pair: str) -> list[dict[str, Any]]:
    lines = (samples_folder() / f"{pair}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_there_are_as_many_sentences_as_promised_in_domains_and_documents() -> None:
    for pair, number in (("en-es", 120), ("en-zh", 60)):
        found = rows(pair)
        assert len(found) == len({row["source"] for row in found}) == number
        domains = Counter(row["domain"] for row in found)
        assert set(domains) == {"travel", "medical", "meeting", "smalltalk", "business"}
        assert len(set(domains.values())) == 1
        documents = Counter(row["document"] for row in found)
        assert all(row["document"].startswith(row["domain"]) for row in found)
        assert min(documents.values()) >= 4


@pytest.mark.parametrize("pair", PAIRS)
def test_the_recorded_outputs_are_what_the_systems_say(pair: str) -> None:
    for row in rows(pair):
        assert with_outputs(row, pair) == row


def test_the_second_system_is_the_better_one_without_being_the_reference() -> None:
    for pair in PAIRS:
        found = rows(pair)
        right = {name: sum(row[name] == row["reference"] for row in found) for name in SYSTEMS}
        assert right["word_by_word"] < right["phrases_first"] < len(found) / 2


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_sample_experiment_runs(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the evaluators that are here: the others are left out."""
    text = (samples_folder() / name).read_text(encoding="utf-8")
    described = tomllib.loads(text)
    kinds = [one["kind"] for one in described["evaluators"]]
    assert kinds == ["chrf", "bleu", "exact"]
    file = samples_folder() / name
    if not set(kinds) <= set(EVALUATORS):
        head, *blocks = text.split("[[evaluators]]")
        kept = [block for block in blocks if 'kind = "exact"' in block]
        file = tmp_path / name
        file.write_text("[[evaluators]]".join([head, *kept]), encoding="utf-8")
        dataset = described["dataset"]["file"]
        (tmp_path / dataset).write_bytes((samples_folder() / dataset).read_bytes())
    assert main(["experiment", "run", str(file), "--data-dir", str(tmp_path / "data")]) == 0
    told = capsys.readouterr().out
    assert described["name"] in told
    assert "gate passed" in told
