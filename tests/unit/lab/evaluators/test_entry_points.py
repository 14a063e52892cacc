"""Kinds that an installed package adds: found by their entry points, used like those built in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman import lab
from dragoman.errors import InvalidMessage
from dragoman.lab.evaluators import EVALUATORS, corpus_score, fingerprints
from dragoman.lab.model import EvaluatorSpec, TargetSpec
from dragoman.lab.plugins import Context
from dragoman.lab.targets import TARGETS

MODULE = '''
"""A target that shouts, and an evaluator that listens."""

import msgspec

from dragoman.lab.evaluators import EvaluatorKind, Score
from dragoman.lab.targets import Output, TargetKind


class Loudness(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How loud is loud enough."""

    least: float = 0.0


class Listener:
    cpu_bound = False

    def __init__(self, name, settings, context, processes):
        self.name = name

    async def score(self, turn, output):
        loud = sum(letter.isupper() for letter in output.answer)
        return Score(loud / len(output.answer), statistics=(loud, len(output.answer)))

    async def close(self):
        pass


class Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is shouted."""

    input: str


class Shouter:
    def __init__(self, settings, context):
        self.column = settings.input

    async def call(self, turn, history):
        return Output({"output": turn[self.column].upper() + "!"})

    async def close(self):
        pass


def check(settings, columns, context):
    pass


LISTENER = EvaluatorKind(Loudness, Listener, check, corpus=lambda settings, sums: sums[0] / sums[1])
SHOUTER = TargetKind(Words, Shouter, check)
NEITHER = Listener
'''


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A tiny distribution with a target and evaluators, one of which is none."""
    site = tmp_path / "site"
    folder = site / "acme_shouting-2.1.dist-info"
    folder.mkdir(parents=True)
    (site / "acme_shouting.py").write_text(MODULE)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-shouting\nVersion: 2.1\n")
    (folder / "entry_points.txt").write_text(
        "[dragoman.targets]\nshout = acme_shouting:SHOUTER\n"
        "[dragoman.evaluators]\nloudness = acme_shouting:LISTENER\n"
        "neither = acme_shouting:NEITHER\n"
    )
    monkeypatch.syspath_prepend(str(site))
    # What is loaded stays loaded, and other tests have no such package.
    monkeypatch.setattr(EVALUATORS, "_loaded", dict(EVALUATORS._loaded))
    monkeypatch.setattr(TARGETS, "_loaded", dict(TARGETS._loaded))
    yield
    sys.modules.pop("acme_shouting", None)


@pytest.mark.usefixtures("installed")
def test_an_experiment_uses_a_target_and_an_evaluator_of_a_package(tmp_path: Path) -> None:
    result = lab.run(
        dataset=[{"word": "hey"}, {"word": "you there"}],
        target=TargetSpec("shout", {"input": "word"}),
        evaluators=[lab.evaluator("loudness", name="loud")],
        data_dir=tmp_path / "data",
        progress=False,
    )
    assert [row.output["output"] for row in result.rows()] == ["HEY!", "YOU THERE!"]
    assert [row.scores["loud"].score for row in result.rows()] == [0.75, 0.8]


@pytest.mark.usefixtures("installed")
def test_the_package_is_a_part_of_the_fingerprint_and_has_corpus_scores() -> None:
    spec = EvaluatorSpec("loudness", "loud")
    assert fingerprints([spec], Context())["loud"].parts["package"] == "acme-shouting 2.1"
    assert corpus_score(spec, (11.0, 14.0)) == 11 / 14


@pytest.mark.usefixtures("installed")
def test_an_entry_point_that_is_no_kind_is_refused_by_name() -> None:
    assert "neither" in EVALUATORS
    assert "nothing" not in EVALUATORS
    with pytest.raises(
        InvalidMessage, match="`neither` of acme_shouting:NEITHER has the type type"
    ):
        EVALUATORS.find("neither")
