"""Gates: what an experiment must reach."""

from __future__ import annotations

import msgspec
import pytest

from dragoman.cli.experiment.gate import judge, read_gate
from dragoman.errors import SettingsError
from dragoman.lab.repository.aggregates import NOTHING
from dragoman.lab.results import Aggregates, Failures

REACHED = Aggregates(
    scores={
        "exact": msgspec.structs.replace(NOTHING, count=10, errors=1, mean=0.8, pass_rate=0.75),
        "a.b": msgspec.structs.replace(NOTHING, count=0),
    },
    latency_ms=NOTHING,
    tokens=NOTHING,
    cost=NOTHING,
)


SCORES = ("exact", "a.b", "nothing")


@pytest.mark.parametrize(
    ("key", "limit", "passes"),
    [
        ("exact.mean", ">= 0.8", True),
        ("exact.mean", "> 0.8", False),
        ("exact.mean", "<1e0", True),
        ("exact.count", "== 10", True),
        ("exact.count", "= 9", False),
        ("exact.errors", "<= 1", True),
        ("exact.errors", "!= 1", False),
        ("exact.pass_rate", ">= 0.75", True),
        ("a.b.count", "< 1", True),
        # What is not there never holds.
        ("a.b.mean", "< 1", False),
        ("a.b.pass_rate", "< 1", False),
        ("nothing.count", ">= 0", False),
    ],
)
def test_a_gate_holds_or_not(key: str, limit: str, passes: bool) -> None:
    verdict, failed = judge(read_gate({key: limit}, SCORES, "exp.toml"), REACHED)
    assert verdict.passed is passes
    assert failed.passed


@pytest.mark.parametrize(
    ("written", "share", "passes"),
    [
        ({"exact.mean": ">= 0"}, 0.0, True),
        # Nothing is said of it: then no item may be without a score.
        ({"exact.mean": ">= 0"}, 0.001, False),
        ({}, 0.001, False),
        ({"max_failed": 0.02}, 0.02, True),
        ({"max_failed": 0.02}, 0.021, False),
        ({"max_failed": 1}, 1.0, True),
    ],
)
def test_a_gate_limits_the_share_of_items_without_a_score(
    written: dict[str, object], share: float, passes: bool
) -> None:
    reached = msgspec.structs.replace(REACHED, failures=Failures(items=1, share=share))
    verdicts = judge(read_gate(written, SCORES, "exp.toml"), reached)
    assert all(verdict.passed for verdict in verdicts) is passes


def test_a_file_without_a_gate_asks_for_nothing() -> None:
    assert read_gate(None, SCORES, "exp.toml") == ()


def test_a_gate_may_be_written_without_quotation_marks() -> None:
    assert read_gate({"exact": {"mean": "> 1"}}, SCORES, "x") == read_gate(
        {"exact.mean": "> 1"}, SCORES, "x"
    )


@pytest.mark.parametrize(
    ("key", "limit"),
    [
        ("exact", ">= 1"),
        ("exact.p50", ">= 1"),
        (".mean", ">= 1"),
        ("exact.mean", "high"),
        # Known before anything is run, and paid for.
        ("exactly.mean", ">= 1"),
        ("exact.mean", 1),
        ("max_failed", ">= 1"),
        ("max_failed", 2),
        ("max_failed", True),
        ("max_fail", 0.1),
    ],
)
def test_a_gate_that_makes_no_sense_is_refused(key: str, limit: object) -> None:
    with pytest.raises(SettingsError, match=r"exp\.toml.*gate"):
        read_gate({key: limit}, SCORES, "exp.toml")
