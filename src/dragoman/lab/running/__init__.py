"""Experiments inside a program: ``lab.run(dataset=..., target=my_function, evaluators=[...])``."""

from dragoman.ids import TenantId
from dragoman.lab.model import (
    ContentId,
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
from dragoman.lab.results import Aggregate, Aggregates, Bin, Cause, Failures
from dragoman.lab.running.describing import (
    Evaluator,
    Function,
    code,
    contains,
    exact,
    http,
    llm_judge,
    openai,
    python,
    recorded,
)
from dragoman.lab.running.embedded import Dataset, Interrupted, arun, run
from dragoman.lab.running.outcomes import Output, RateLimited, Score, TargetError
from dragoman.lab.running.progress import shown_on
from dragoman.lab.running.result import RunResult, Summary
from dragoman.lab.running.watching import Away, Interrupts, Reached, interrupts, watch
from dragoman.lab.states import ItemStatus, RunStatus

__all__ = [
    "Aggregate",
    "Aggregates",
    "Away",
    "Bin",
    "Cause",
    "ContentId",
    "Dataset",
    "Evaluator",
    "EvaluatorSpec",
    "ExperimentId",
    "Failures",
    "Function",
    "Interrupted",
    "Interrupts",
    "ItemId",
    "ItemStatus",
    "JsonValue",
    "Output",
    "RateLimited",
    "Reached",
    "ResultRow",
    "RunId",
    "RunResult",
    "RunStatus",
    "Score",
    "ScoreCell",
    "Stats",
    "Summary",
    "TargetError",
    "TargetSpec",
    "TenantId",
    "Turn",
    "arun",
    "code",
    "contains",
    "exact",
    "http",
    "interrupts",
    "llm_judge",
    "openai",
    "python",
    "recorded",
    "run",
    "shown_on",
    "watch",
]
