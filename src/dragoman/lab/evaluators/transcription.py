"""WER and CER: how many words, or characters, an output gets wrong, by jiwer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman.lab.evaluators.evaluator import OpenedEvaluator
from dragoman.lab.evaluators.measured import MeasuredEvaluator, MeasuredSettings
from dragoman.lab.evaluators.processes import FunctionProcessPool
from dragoman.lab.plugins import Context
from dragoman.lab.scoring import Unit, corpus_error_rate, is_written_without_spaces

LIBRARIES = ("jiwer", "rapidfuzz")


class WerSettings(MeasuredSettings, frozen=True):
    """What is compared, and what counts as a difference."""

    ignore_punctuation: bool = False
    unit: Unit | None = None
    """What is counted. Left out: characters in languages without spaces between words (Chinese,
    Japanese, Thai, Lao, Khmer, Burmese), words in all others."""


class CerSettings(MeasuredSettings, frozen=True):
    """What is compared, and what counts as a difference."""

    ignore_punctuation: bool = False
    ignore_space: bool | None = None
    """Whether spaces are no characters. Left out: only in languages without spaces between
    words."""


def wer_options(settings: WerSettings) -> dict[str, Any]:
    by_character = is_written_without_spaces(settings.language)
    return {
        "unit": settings.unit or ("character" if by_character else "word"),
        "ignore_case": settings.ignore_case,
        "ignore_punctuation": settings.ignore_punctuation,
    }


def cer_options(settings: CerSettings) -> dict[str, Any]:
    ignore_space = settings.ignore_space
    if ignore_space is None:
        ignore_space = is_written_without_spaces(settings.language)
    return {
        "ignore_space": ignore_space,
        "ignore_case": settings.ignore_case,
        "ignore_punctuation": settings.ignore_punctuation,
    }


def wer(
    name: str, settings: WerSettings, context: Context, processes: FunctionProcessPool
) -> OpenedEvaluator:
    options = wer_options(settings)
    return MeasuredEvaluator(name, "wer", settings, options, processes, higher_is_better=False)


def cer(
    name: str, settings: CerSettings, context: Context, processes: FunctionProcessPool
) -> OpenedEvaluator:
    options = cer_options(settings)
    return MeasuredEvaluator(name, "cer", settings, options, processes, higher_is_better=False)


def of_corpus(settings: WerSettings | CerSettings, sums: Sequence[float]) -> float | None:
    return corpus_error_rate(sums)


def libraries(settings: WerSettings | CerSettings) -> tuple[str, ...]:
    return LIBRARIES
