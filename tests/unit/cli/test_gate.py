"""Gates: what an experiment must reach."""

from __future__ import annotations

import msgspec
import pytest

from dragoman.cli.experiment.gate import judge, read_gate
from dragoman.errors import SettingsError
from dragoman.lab.repository.aggregates import NOTHING
from dragoman.lab.results import Aggregates

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
    (verdict,) = judge(read_gate({key: limit}, SCORES, "exp.toml"), REACHED)
    assert verdict.passed is passes


@pytest.mark.parametrize(
    ("key", "limit"),
    [
        ("exact", ">= 1"),
        ("exact.p50", ">= 1"),
        (".mean", ">= 1"),
        ("exact.mean", "high"),
        # Known before anything is run, and paid for.
        ("exactly.mean", ">= 1"),
    ],
)
def test_a_gate_that_makes_no_sense_is_refused(key: str, limit: str) -> None:
    with pytest.raises(SettingsError, match=r"exp\.toml.*gate"):
        read_gate({key: limit}, SCORES, "exp.toml")
