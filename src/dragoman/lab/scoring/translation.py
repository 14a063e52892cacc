"""BLEU, chrF and TER, by sacrebleu.

The statistics of a text are sacrebleu's own, which its corpus scores and its significance tests
are computed from: a corpus has their sums.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from dragoman.lab.scoring.languages import Tokenizer
from dragoman.lab.scoring.outcome import Measure

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

Smoothing = Literal["exp", "floor", "add-k", "none"]

_KEPT_CHARACTERS = 20_000_000
"""sacrebleu's tokenizers remember 65,536 texts of any length; here they forget now and then."""


def bleu(
    output: str,
    references: Sequence[str],
    *,
    tokenizer: Tokenizer,
    ignore_case: bool,
    smooth: Smoothing,
    smooth_value: float | None,
    max_order: int,
) -> Measure:
    """sacrebleu's sentence BLEU, 0 to 100: orders that the text is too short for do not count."""
    _memory.add(output, references)
    metric = _bleu(tokenizer, ignore_case, max_order)
    statistics = _statistics(metric, output, references)
    score = _bleu_of(statistics, smooth, smooth_value, max_order, effective_order=True)
    return Measure(score, statistics)


def corpus_bleu(
    sums: Sequence[float], *, smooth: Smoothing, smooth_value: float | None, max_order: int
) -> float | None:
    """sacrebleu's corpus BLEU from the sums of the texts' statistics."""
    if not any(sums):
        return None
    return _bleu_of(_whole(sums), smooth, smooth_value, max_order, effective_order=False)


def chrf(
    output: str,
    references: Sequence[str],
    *,
    char_order: int,
    word_order: int,
    beta: int,
    ignore_case: bool,
    whitespace: bool,
) -> Measure:
    """sacrebleu's chrF, 0 to 100; chrF++ with a word order of 2."""
    metric = _chrf(char_order, word_order, beta, ignore_case, whitespace)
    statistics = _statistics(metric, output, references)
    return Measure(metric._compute_score_from_stats(statistics).score, statistics)


def corpus_chrf(
    sums: Sequence[float], *, char_order: int, word_order: int, beta: int
) -> float | None:
    """sacrebleu's corpus chrF from the sums of the texts' statistics."""
    if not any(sums):
        return None
    metric = _chrf(char_order, word_order, beta, False, False)
    return float(metric._compute_score_from_stats(_whole(sums)).score)


def ter(
    output: str,
    references: Sequence[str],
    *,
    tokenizer: Tokenizer,
    ignore_case: bool,
    ignore_punctuation: bool,
    normalized: bool,
    asian_support: bool,
) -> Measure:
    """sacrebleu's TER: edits, moved phrases among them, for each 100 words of the reference."""
    _memory.add(output, references)
    if tokenizer != "none":
        cut = _bleu(tokenizer, False, 4).tokenizer
        output, references = cut(output), [cut(one) for one in references]
    metric = _ter(ignore_case, ignore_punctuation, normalized, asian_support)
    statistics = _statistics(metric, output, references)
    return Measure(float(metric._compute_score_from_stats(statistics).score), statistics)


def corpus_ter(sums: Sequence[float]) -> float | None:
    """sacrebleu's corpus TER from the sums of the texts' statistics."""
    if not any(sums):
        return None
    return float(_ter(True, False, False, False)._compute_score_from_stats(_whole(sums)).score)


def _statistics(metric: BLEU | CHRF | TER, output: str, references: Sequence[str]) -> list[Any]:
    # No public function gives a text's statistics. These two methods are what sacrebleu itself
    # computes every score and every resample of its significance tests with.
    [statistics] = metric._extract_corpus_statistics([output], [[one] for one in references])
    return list(statistics)


def _whole(sums: Sequence[float]) -> list[Any]:
    """Counts as the whole numbers that they are."""
    return [int(one) if one == int(one) else one for one in sums]


def _bleu_of(
    statistics: list[Any],
    smooth: Smoothing,
    smooth_value: float | None,
    max_order: int,
    *,
    effective_order: bool,
) -> float:
    from sacrebleu.metrics.bleu import BLEU

    correct, total = statistics[2 : 2 + max_order], statistics[2 + max_order :]
    scored = BLEU.compute_bleu(
        correct=correct,
        total=total,
        sys_len=int(statistics[0]),
        ref_len=int(statistics[1]),
        smooth_method=smooth,
        smooth_value=smooth_value,
        effective_order=effective_order,
        max_ngram_order=max_order,
    )
    return float(scored.score)


@lru_cache(maxsize=16)
def _bleu(tokenizer: Tokenizer, ignore_case: bool, max_order: int) -> BLEU:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(lowercase=ignore_case, force=True, tokenize=tokenizer, max_ngram_order=max_order)


@lru_cache(maxsize=16)
def _chrf(char_order: int, word_order: int, beta: int, ignore_case: bool, whitespace: bool) -> CHRF:
    from sacrebleu.metrics.chrf import CHRF

    return CHRF(char_order, word_order, beta, ignore_case, whitespace)


@lru_cache(maxsize=16)
def _ter(ignore_case: bool, ignore_punctuation: bool, normalized: bool, asian_support: bool) -> TER:
    from sacrebleu.metrics.ter import TER

    return TER(
        normalized=normalized,
        no_punct=ignore_punctuation,
        asian_support=asian_support,
        case_sensitive=not ignore_case,
    )


class _Memory:
    """How much text sacrebleu's tokenizers remember at most."""

    def __init__(self) -> None:
        self._characters = 0

    def add(self, output: str, references: Sequence[str]) -> None:
        self._characters += len(output) + sum(map(len, references))
        if self._characters > _KEPT_CHARACTERS:
            self._characters = 0
            _forget()


_memory = _Memory()


def _forget() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("sacrebleu.tokenizers."):
            for made in vars(module).values():
                clear: Any = getattr(getattr(made, "__call__", None), "cache_clear", None)  # noqa: B004
                if isinstance(made, type) and clear is not None:
                    clear()
