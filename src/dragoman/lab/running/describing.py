"""Targets and evaluators as Python programs write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dragoman.lab.model import EvaluatorSpec, TargetSpec

Function = Callable[..., Any]


class Evaluator(msgspec.Struct, frozen=True):
    """An evaluator, and the function it calls if it is one of the program's own."""

    spec: EvaluatorSpec
    function: Function | None = None


def exact(
    *,
    reference: str,
    output: str | None = None,
    ignore_case: bool = False,
    ignore_space: bool = False,
    name: str = "exact",
    weight: float = 1.0,
) -> Evaluator:
    """Scores whether the output equals the column `reference`."""
    how = {"ignore_case": ignore_case, "ignore_space": ignore_space}
    return _of_kind("exact", name, weight, reference=reference, output=output, **how)


def contains(
    *,
    reference: str,
    output: str | None = None,
    ignore_case: bool = False,
    name: str = "contains",
    weight: float = 1.0,
) -> Evaluator:
    """Scores whether the output contains the column `reference`."""
    settings = {"reference": reference, "output": output, "ignore_case": ignore_case}
    return _of_kind("contains", name, weight, **settings)


def python(
    function: Function | str,
    *,
    cpu_bound: bool = False,
    name: str | None = None,
    weight: float = 1.0,
) -> Evaluator:
    """A function that gives a score: its arguments are columns, `output`, or both.

    It returns a number, True or False, or a mapping with score, label and reason. With `cpu_bound`
    it runs in a process of its own.
    """
    if isinstance(function, str):
        return _of_kind("python", name or "python", weight, function=function, cpu_bound=cpu_bound)
    called = name or _name_of(function)
    made = _of_kind("python", called, weight, function=called, cpu_bound=cpu_bound)
    return msgspec.structs.replace(made, function=function)


def llm_judge(
    *,
    url: str,
    model: str,
    rubric: str,
    name: str = "llm_judge",
    weight: float = 1.0,
    **settings: Any,
) -> Evaluator:
    """A language model that scores the output by a rubric, or compares it with `baseline`.

    See the settings of the `llm_judge` evaluator.
    """
    return _of_kind("llm_judge", name, weight, url=url, model=model, rubric=rubric, **settings)


def code(snippet: str, *, name: str = "code", weight: float = 1.0, **settings: Any) -> Evaluator:
    """A snippet of Python that scores the output in a process that can reach nothing.

    It is an expression, or it defines `score(...)`, whose arguments are columns, `output`, or both.
    """
    return _of_kind("code", name, weight, code=snippet, **settings)


def openai(url: str, *, model: str, **settings: Any) -> TargetSpec:
    """A model on an OpenAI-compatible server; see the settings of the `openai` target."""
    return TargetSpec("openai", {"url": url, "model": model, **settings})


def http(url: str, *, output: str, **settings: Any) -> TargetSpec:
    """A model behind HTTP; see the settings of the `http` target."""
    return TargetSpec("http", {"url": url, "output": output, **settings})


def recorded(*, output: str) -> TargetSpec:
    """Outputs that the dataset already has, in this column."""
    return TargetSpec("recorded", {"output": output})


def target_of(given: Function | str | TargetSpec) -> tuple[TargetSpec, Mapping[str, Function]]:
    """The target that was given, and the functions it needs."""
    if isinstance(given, TargetSpec):
        return given, {}
    if isinstance(given, str):
        return TargetSpec("python", {"function": given}), {}
    name = f"target {_name_of(given)}"
    return TargetSpec("python", {"function": name}), {name: given}


def evaluator_of(given: Evaluator | Function) -> Evaluator:
    """The evaluator that was given; a plain function is one too."""
    return given if isinstance(given, Evaluator) else python(given)


def _of_kind(kind: str, name: str, weight: float, **settings: Any) -> Evaluator:
    kept = {key: value for key, value in settings.items() if value is not None}
    return Evaluator(EvaluatorSpec(kind, name, weight, kept))


def _name_of(function: Function) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
