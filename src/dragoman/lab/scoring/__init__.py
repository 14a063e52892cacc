"""Scores of texts, as plain functions over sacrebleu, jiwer and Python's own regular expressions.

Evaluator processes call `measure`. Nothing here imports a scoring library before it is used, so
that a process is ready in a moment and a bare installation has everything else.
"""

from dragoman.lab.scoring.languages import (
    Tokenizer,
    Unit,
    is_written_without_spaces,
    tokenizer_of,
)
from dragoman.lab.scoring.measuring import UnicodeForm, measure
from dragoman.lab.scoring.outcome import Measure
from dragoman.lab.scoring.patterns import pattern_problem
from dragoman.lab.scoring.transcription import corpus_error_rate
from dragoman.lab.scoring.translation import Smoothing, corpus_bleu, corpus_chrf, corpus_ter

__all__ = [
    "Measure",
    "Smoothing",
    "Tokenizer",
    "UnicodeForm",
    "Unit",
    "corpus_bleu",
    "corpus_chrf",
    "corpus_error_rate",
    "corpus_ter",
    "is_written_without_spaces",
    "measure",
    "pattern_problem",
    "tokenizer_of",
]
