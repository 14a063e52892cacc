"""Word and character error rates, by jiwer.

The statistics are hits, substitutions, deletions and insertions. A corpus has the sums of its
texts' errors over the sum of its references' lengths, as jiwer counts several sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from dragoman.lab.scoring.languages import Unit
from dragoman.lab.scoring.outcome import Measure, Unscorable


def wer(
    output: str,
    references: Sequence[str],
    *,
    unit: Unit,
    ignore_case: bool,
    ignore_punctuation: bool,
) -> Measure:
    """The error rate of words; of characters where a language has no spaces between words."""
    by_character = unit == "character"
    transform = _transform(
        by_character=by_character,
        ignore_space=by_character,
        ignore_case=ignore_case,
        ignore_punctuation=ignore_punctuation,
    )
    return _error_rate(output, references, transform, "characters" if by_character else "words")


def cer(
    output: str,
    references: Sequence[str],
    *,
    ignore_space: bool,
    ignore_case: bool,
    ignore_punctuation: bool,
) -> Measure:
    """The error rate of characters."""
    transform = _transform(
        by_character=True,
        ignore_space=ignore_space,
        ignore_case=ignore_case,
        ignore_punctuation=ignore_punctuation,
    )
    return _error_rate(output, references, transform, "characters")


def corpus_error_rate(sums: Sequence[float]) -> float | None:
    """The error rate of a corpus from the sums of its texts' statistics."""
    hits, substitutions, deletions, insertions = sums
    length = hits + substitutions + deletions
    return (substitutions + deletions + insertions) / length if length else None


def _error_rate(output: str, references: Sequence[str], transform: Any, pieces: str) -> Measure:
    import jiwer

    if len(references) > 1:
        raise Unscorable(
            f"there are {len(references)} references, and an error rate is counted against one"
        )
    found = jiwer.process_words(references[0], output, transform, transform)
    if not found.references[0]:
        raise Unscorable(f"the reference has no {pieces} left to compare with")
    errors = found.substitutions + found.deletions + found.insertions
    reason = None
    if errors:
        reason = (
            f"{found.substitutions} wrong, {found.deletions} missing, {found.insertions} too many "
            f"of {len(found.references[0])} {pieces}"
        )
    statistics = [found.hits, found.substitutions, found.deletions, found.insertions]
    return Measure(float(found.wer), statistics, reason)


@lru_cache(maxsize=16)
def _transform(
    *, by_character: bool, ignore_space: bool, ignore_case: bool, ignore_punctuation: bool
) -> Any:
    """jiwer's own defaults, after what is to be ignored is gone."""
    import jiwer

    steps: list[Any] = []
    if ignore_case:
        steps.append(jiwer.ToLowerCase())
    if ignore_punctuation:
        steps.append(jiwer.RemovePunctuation())  # type: ignore[no-untyped-call]
    if ignore_space:
        # All of Unicode's spaces, such as the wide one of Chinese and Japanese.
        steps.append(jiwer.SubstituteRegexes({r"\s+": ""}))
    usual = jiwer.cer_default if by_character else jiwer.wer_default
    return jiwer.Compose([*steps, *usual.transforms])
