"""One measure of one text, as an evaluator process computes it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from dragoman.lab.scoring import patterns, transcription, translation
from dragoman.lab.scoring.outcome import Measure, Unscorable
from dragoman.lab.scoring.processor_time import TooLong, at_most

UnicodeForm = Literal["NFC", "NFD", "NFKC", "NFKD"]


class _Way(NamedTuple):
    """How a kind is measured."""

    function: Callable[..., Measure]
    needs_reference: bool = True


MEASURES: Mapping[str, _Way] = {
    "bleu": _Way(translation.bleu),
    "chrf": _Way(translation.chrf),
    "ter": _Way(translation.ter),
    "wer": _Way(transcription.wer),
    "cer": _Way(transcription.cer),
    "regex": _Way(patterns.search, needs_reference=False),
}


def measure(
    kind: str,
    output: str,
    references: Sequence[str],
    options: Mapping[str, Any],
    seconds: float,
    unicode_form: UnicodeForm | None = None,
) -> Measure:
    """The measure of an output against its references; never raises what texts can cause.

    A text that cannot be measured has its reason in the answer: another try would not help.
    """
    way = MEASURES[kind]
    if unicode_form is not None:
        output = unicodedata.normalize(unicode_form, output)
        references = [unicodedata.normalize(unicode_form, one) for one in references]
    try:
        if way.needs_reference and not all(one.strip() for one in references):
            raise Unscorable("the reference is empty, and nothing can be compared with it")
        with at_most(seconds):
            return way.function(output, references, **options)
    except (TooLong, Unscorable) as error:
        return Measure(problem=str(error))
    except Exception as error:  # a library may raise anything
        return Measure(problem=f"{type(error).__name__}: {error}")
