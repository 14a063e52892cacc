"""The evaluators of an experiment that is scored again: no number is ever used twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.lab.experiments.asking import with_evaluators
from dragoman.lab.model import EvaluatorSpec, ExperimentSpec, TargetSpec, VersionId

NAMES = st.lists(st.sampled_from("abcdef"), unique=True, min_size=1)


@given(NAMES, st.lists(NAMES, max_size=6))
def test_a_number_never_comes_back_for_another_evaluator(
    first: list[str], later: list[list[str]]
) -> None:
    spec = ExperimentSpec("one", VersionId("v"), TargetSpec("python"), _named(first))
    used = dict(enumerate(first))
    for names in later:
        before = spec.numbers
        spec = with_evaluators(spec, _named(names))
        for name, number in spec.numbers.items():
            if name in names:
                assert number not in used
                used[number] = name
            else:
                assert number == before[name]


def test_a_replaced_evaluator_stays_in_its_place_and_new_ones_follow() -> None:
    spec = ExperimentSpec("one", VersionId("v"), TargetSpec("python"), _named(["a", "b"]))

    spec = with_evaluators(spec, _named(["c", "a"]))

    assert spec.numbers == {"a": 3, "b": 1, "c": 2}


def _named(names: list[str]) -> tuple[EvaluatorSpec, ...]:
    return tuple(EvaluatorSpec("exact", name) for name in names)
