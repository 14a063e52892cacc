"""The kinds of evaluator there are."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from dragoman.lab.evaluators import code, contains, exact, judge, python, text
from dragoman.lab.evaluators.evaluator import Evaluator
from dragoman.lab.evaluators.processes import ProcessPool
from dragoman.lab.model import EvaluatorSpec
from dragoman.lab.targets import Context, Registry, settings_of

SettingsT = TypeVar("SettingsT", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class EvaluatorKind(Generic[SettingsT]):
    """How evaluators of one kind are made. Entry points of `dragoman.evaluators` name one."""

    settings: type[SettingsT]
    """What may be set, as a struct; its JSON-schema is shown to users."""
    open: Callable[[str, SettingsT, Context, ProcessPool], Evaluator]
    check: Callable[[SettingsT, Collection[str], Context], None]
    """Refuses settings that cannot work with these columns, before anything is stored."""

    def schema(self) -> dict[str, Any]:
        """The JSON-schema of the settings."""
        return msgspec.json.schema(self.settings)


EVALUATORS: Registry[EvaluatorKind[Any]] = Registry(
    "evaluator",
    "dragoman.evaluators",
    {
        "exact": EvaluatorKind(exact.Settings, exact.ExactEvaluator, text.check),
        "contains": EvaluatorKind(contains.Settings, contains.ContainsEvaluator, text.check),
        "code": EvaluatorKind(code.Settings, code.CodeEvaluator, code.check),
        "llm_judge": EvaluatorKind(judge.Settings, judge.JudgeEvaluator, judge.check),
        "python": EvaluatorKind(python.Settings, python.PythonEvaluator, python.check),
    },
)


def check_evaluator(spec: EvaluatorSpec, columns: Collection[str], context: Context) -> None:
    """Refuse an evaluator that cannot work on a dataset with these columns, and say why."""
    kind = EVALUATORS.find(spec.kind)
    kind.check(settings_of(kind.settings, spec.settings, "evaluator"), columns, context)


def open_evaluator(spec: EvaluatorSpec, context: Context, processes: ProcessPool) -> Evaluator:
    """The evaluator that a spec describes; the caller closes it.

    Evaluators that compute much use `processes`, which belong to the lab and stay open.
    """
    kind = EVALUATORS.find(spec.kind)
    settings = settings_of(kind.settings, spec.settings, "evaluator")
    return kind.open(spec.name, settings, context, processes)
