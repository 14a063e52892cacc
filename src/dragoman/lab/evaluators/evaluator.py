"""The interface of evaluators, and the scores that they give."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from dragoman.lab.failures import shortened
from dragoman.lab.model import Turn
from dragoman.lab.targets import Output, usage_problem

PASS = "pass"
FAIL = "fail"

LARGEST_SCORE = 1e100
"""The largest absolute score: sums of squares still fit into every database's numbers."""


_SAID = ("score", "label", "reason", "tokens", "cost")
"""What a user's function may say."""


class Score(msgspec.Struct, frozen=True):
    """An evaluator's judgement of an output; a missing score is None, never zero."""

    score: float | None = None
    label: str | None = None
    reason: str | None = None
    statistics: tuple[float, ...] | None = None
    """What corpus scores are computed from, once it is added up over turns; for programs."""
    tokens: int | None = None
    """What the evaluator itself used up, counted to the run."""
    cost: float | None = None


class OpenedEvaluator(Protocol):
    """Judges outputs, many at once."""

    @property
    def name(self) -> str:
        """The name of the score."""
        ...

    @property
    def cpu_bound(self) -> bool:
        """Whether it computes in a process of its own, so that others are not held up."""
        ...

    async def score(self, turn: Turn, output: Output) -> Score:
        """The score; raises `EvaluatorError` when it fails, `RateLimited` to be called later."""
        ...

    async def close(self) -> None: ...


class ComputesAtOnce:
    """Marks an evaluator that computes its score from the output at once, and costs nothing.

    The worker calls it while the output is still being written: if the worker dies meanwhile, only
    that moment's computing is repeated.
    """


@runtime_checkable
class CallsModels(Protocol):
    """An evaluator that calls a model, and counts how often."""

    calls: int
    """The calls so far, of every output that it judged."""


def verdict(passed: bool, reason: str | None = None) -> Score:
    """The score of a yes or a no."""
    return Score(1.0 if passed else 0.0, PASS if passed else FAIL, reason)


def judged(score: float, threshold: float | None, *, higher_is_better: bool) -> str | None:
    """The label of a score: whether it reaches the threshold; None where there is none."""
    if threshold is None:
        return None
    reached = score >= threshold if higher_is_better else score <= threshold
    return PASS if reached else FAIL


def as_score(said: Any) -> Score:
    """What a user's function returned, as a score; ValueError when it is none.

    A number is the score, a truth is a verdict, text is the label, an object may have all five.
    """
    if isinstance(said, Score):
        said = {name: getattr(said, name) for name in _SAID}
    if isinstance(said, bool):
        said = {"score": said, "label": PASS if said else FAIL}
    elif isinstance(said, str):
        said = {"label": said}
    elif not isinstance(said, Mapping):
        said = {"score": said}
    if unknown := set(said) - set(_SAID):
        raise ValueError(
            f"it has {', '.join(sorted(map(str, unknown)))}; known are {', '.join(_SAID)}"
        )
    score = _number(said.get("score"))
    label, reason = _text(said.get("label")), _text(said.get("reason"))
    if score is None and label is None:
        raise ValueError("it has neither a score nor a label")
    tokens, cost = said.get("tokens"), said.get("cost")
    if (problem := usage_problem(Output({}, tokens=tokens, cost=cost))) is not None:
        raise ValueError(f"it {problem}")
    return Score(score, label, reason, tokens=tokens, cost=cost)


def _number(value: Any) -> float | None:
    if value is None:
        return None
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        raise ValueError(f"the score is a {type(value).__name__}, not a number") from None
    if isinstance(value, str) or math.isnan(number):
        raise ValueError(f"the score is {value!r}, not a number")
    if abs(number) > LARGEST_SCORE:
        raise ValueError(f"the score is {number:g}, further from 0 than {LARGEST_SCORE:g}")
    return number


def _text(value: Any) -> str | None:
    return None if value is None else shortened(str(value).encode(errors="replace").decode())
