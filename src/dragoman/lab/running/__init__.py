"""Experiments inside a program: ``lab.run(dataset=..., target=my_function, evaluators=[...])``."""

from dragoman.ids import TenantId
from dragoman.lab.model import (
    EvaluatorSpec,
    ExperimentId,
    ItemId,
    JsonValue,
    ResultRow,
    RunId,
    ScoreCell,
    Stats,
    TargetSpec,
    Turn,
)
from dragoman.lab.results import Aggregate, Aggregates, Bin
from dragoman.lab.running.describing import (
    Evaluator,
    Function,
    contains,
    exact,
    http,
    python,
    recorded,
)
from dragoman.lab.running.embedded import Dataset, arun, run
from dragoman.lab.running.result import RunResult, Summary
from dragoman.lab.states import ItemStatus, RunStatus

__all__ = [
    "Aggregate",
    "Aggregates",
    "Bin",
    "Dataset",
    "Evaluator",
    "EvaluatorSpec",
    "ExperimentId",
    "Function",
    "ItemId",
    "ItemStatus",
    "JsonValue",
    "ResultRow",
    "RunId",
    "RunResult",
    "RunStatus",
    "ScoreCell",
    "Stats",
    "Summary",
    "TargetSpec",
    "TenantId",
    "Turn",
    "arun",
    "contains",
    "exact",
    "http",
    "python",
    "recorded",
    "run",
]
