"""BLEU, chrF and TER: how close an output comes to a translation, by sacrebleu."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from dragoman.errors import InvalidMessage
from dragoman.lab.evaluators import text
from dragoman.lab.evaluators.evaluator import OpenedEvaluator
from dragoman.lab.evaluators.measured import MeasuredEvaluator, MeasuredSettings, range_problem
from dragoman.lab.evaluators.processes import FunctionProcessPool
from dragoman.lab.plugins import Context
from dragoman.lab.scoring import (
    Smoothing,
    Tokenizer,
    corpus_bleu,
    corpus_chrf,
    corpus_ter,
    tokenizer_of,
)

# --- BLEU -----------------------------------------------------------------------------------------


class BleuSettings(MeasuredSettings, frozen=True):
    """BLEU's own settings, with sacrebleu's defaults."""

    tokenizer: Tokenizer | None = None
    """Left out: by the language (`zh`, `ja-mecab` for Japanese, `char` for Thai), else `13a`."""
    smooth: Smoothing = "exp"
    smooth_value: float | None = None
    max_order: int = 4
    """The longest n-grams that are counted."""


def bleu_options(settings: BleuSettings) -> dict[str, Any]:
    return {
        "tokenizer": settings.tokenizer or tokenizer_of(settings.language) or "13a",
        "ignore_case": settings.ignore_case,
        "smooth": settings.smooth,
        "smooth_value": settings.smooth_value,
        "max_order": settings.max_order,
    }


def bleu(
    name: str, settings: BleuSettings, context: Context, processes: FunctionProcessPool
) -> OpenedEvaluator:
    options = bleu_options(settings)
    return MeasuredEvaluator(name, "bleu", settings, options, processes, higher_is_better=True)


def check_bleu(settings: BleuSettings, columns: Collection[str], context: Context) -> None:
    _check_range(settings, "max_order", 1, 10)
    _check_range(settings, "smooth_value", 0, 100)
    text.check(settings, columns, context)


def bleu_of_corpus(settings: BleuSettings, sums: Sequence[float]) -> float | None:
    return corpus_bleu(
        sums,
        smooth=settings.smooth,
        smooth_value=settings.smooth_value,
        max_order=settings.max_order,
    )


# --- chrF -----------------------------------------------------------------------------------------


class ChrfSettings(MeasuredSettings, frozen=True):
    """chrF's own settings, with sacrebleu's defaults."""

    char_order: int = 6
    word_order: int = 0
    """2 gives chrF++."""
    beta: int = 2
    """How many times as important recall is as precision."""
    whitespace: bool = False
    """Count spaces as characters."""


def chrf_options(settings: ChrfSettings) -> dict[str, Any]:
    return {
        "char_order": settings.char_order,
        "word_order": settings.word_order,
        "beta": settings.beta,
        "ignore_case": settings.ignore_case,
        "whitespace": settings.whitespace,
    }


def chrf(
    name: str, settings: ChrfSettings, context: Context, processes: FunctionProcessPool
) -> OpenedEvaluator:
    options = chrf_options(settings)
    return MeasuredEvaluator(name, "chrf", settings, options, processes, higher_is_better=True)


def check_chrf(settings: ChrfSettings, columns: Collection[str], context: Context) -> None:
    _check_range(settings, "char_order", 1, 10)
    _check_range(settings, "word_order", 0, 10)
    _check_range(settings, "beta", 1, 10)
    text.check(settings, columns, context)


def chrf_of_corpus(settings: ChrfSettings, sums: Sequence[float]) -> float | None:
    return corpus_chrf(
        sums,
        char_order=settings.char_order,
        word_order=settings.word_order,
        beta=settings.beta,
    )


# --- TER ------------------------------------------------------------------------------------------


class TerSettings(MeasuredSettings, frozen=True):
    """TER's own settings, with sacrebleu's defaults."""

    ignore_case: bool = True
    ignore_punctuation: bool = False
    normalized: bool = False
    """Separate punctuation from words, as Tercom does."""
    asian_support: bool = False
    """With `normalized` or `ignore_punctuation`: treat Asian characters and punctuation, too."""
    tokenizer: Tokenizer | None = None
    """Left out: by the language (`zh`, `ja-mecab` for Japanese, `char` for Thai), else `none`."""


def ter_options(settings: TerSettings) -> dict[str, Any]:
    return {
        "tokenizer": settings.tokenizer or tokenizer_of(settings.language) or "none",
        "ignore_case": settings.ignore_case,
        "ignore_punctuation": settings.ignore_punctuation,
        "normalized": settings.normalized,
        "asian_support": settings.asian_support,
    }


def ter(
    name: str, settings: TerSettings, context: Context, processes: FunctionProcessPool
) -> OpenedEvaluator:
    options = ter_options(settings)
    return MeasuredEvaluator(name, "ter", settings, options, processes, higher_is_better=False)


def ter_of_corpus(settings: TerSettings, sums: Sequence[float]) -> float | None:
    return corpus_ter(sums)


# --- of all three ---------------------------------------------------------------------------------


def bleu_libraries(settings: BleuSettings) -> tuple[str, ...]:
    return _libraries(bleu_options(settings)["tokenizer"])


def chrf_libraries(settings: ChrfSettings) -> tuple[str, ...]:
    return _libraries("none")


def ter_libraries(settings: TerSettings) -> tuple[str, ...]:
    return _libraries(ter_options(settings)["tokenizer"])


def _libraries(tokenizer: Tokenizer) -> tuple[str, ...]:
    if tokenizer == "ja-mecab":
        return ("sacrebleu", "mecab-python3", "ipadic")
    return ("sacrebleu",)


def _check_range(settings: MeasuredSettings, name: str, least: float, most: float) -> None:
    if (problem := range_problem(settings, name, least, most)) is not None:
        raise InvalidMessage(problem, details={"field": f"evaluator.{name}"})
