"""The lab plane: experiments that run a dataset through a target and score what comes out.

In a program::

    from dragoman import lab

    result = lab.run(
        dataset="sentences.jsonl",
        target=my_function,
        evaluators=[lab.exact(reference="answer")],
    )
    print(result.summary)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.lab.running import (
        Aggregate,
        Aggregates,
        Agreement,
        AnnotatedName,
        Annotation,
        AudioFile,
        Bin,
        Calibration,
        Cause,
        ContentId,
        Dataset,
        DatasetFile,
        Estimate,
        EstimateResult,
        Evaluator,
        EvaluatorSpec,
        ExperimentId,
        Failures,
        Function,
        Interrupted,
        ItemId,
        ItemStatus,
        JsonValue,
        Outcomes,
        Output,
        RateLimited,
        Repeated,
        ResultRow,
        RunId,
        RunResult,
        RunStatus,
        Score,
        ScoreCell,
        Smoothing,
        Stats,
        Summary,
        TargetError,
        TargetSpec,
        TenantId,
        Tokenizer,
        Turn,
        UnicodeForm,
        Unit,
        aestimate,
        arun,
        bleu,
        cer,
        chrf,
        code,
        composite,
        contains,
        estimate,
        evaluator,
        exact,
        http,
        json_match,
        latency,
        length_ratio,
        llm_judge,
        numeric,
        openai,
        python,
        recorded,
        regex,
        run,
        ter,
        wer,
    )

__all__ = [
    "Aggregate",
    "Aggregates",
    "Agreement",
    "AnnotatedName",
    "Annotation",
    "AudioFile",
    "Bin",
    "Calibration",
    "Cause",
    "ContentId",
    "Dataset",
    "DatasetFile",
    "Estimate",
    "EstimateResult",
    "Evaluator",
    "EvaluatorSpec",
    "ExperimentId",
    "Failures",
    "Function",
    "Interrupted",
    "ItemId",
    "ItemStatus",
    "JsonValue",
    "Outcomes",
    "Output",
    "RateLimited",
    "Repeated",
    "ResultRow",
    "RunId",
    "RunResult",
    "RunStatus",
    "Score",
    "ScoreCell",
    "Smoothing",
    "Stats",
    "Summary",
    "TargetError",
    "TargetSpec",
    "TenantId",
    "Tokenizer",
    "Turn",
    "UnicodeForm",
    "Unit",
    "aestimate",
    "arun",
    "bleu",
    "cer",
    "chrf",
    "code",
    "composite",
    "contains",
    "estimate",
    "evaluator",
    "exact",
    "http",
    "json_match",
    "latency",
    "length_ratio",
    "llm_judge",
    "numeric",
    "openai",
    "python",
    "recorded",
    "regex",
    "run",
    "ter",
    "wer",
]


if not TYPE_CHECKING:  # mypy would believe that every name exists

    def __getattr__(name: str) -> Any:
        # Imported on first use: the lab's own packages are imported through this one.
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module("dragoman.lab.running"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
