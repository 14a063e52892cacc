"""Scores are those of sacrebleu and jiwer, for each text and for any corpus of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import jiwer
import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from tests.unit.lab.scoring.texts import LANGUAGES, corpora

from dragoman.lab.evaluators import EVALUATORS, corpus_score
from dragoman.lab.evaluators.measured import PROCESSOR_SECONDS
from dragoman.lab.model import EvaluatorSpec
from dragoman.lab.plugins import Context, settings_of
from dragoman.lab.scoring import Measure, measure

EXAMPLES = 120
Pair = tuple[str, str]
Own = Callable[[Sequence[Pair]], float]
"""The score of some pairs, as the library itself gives it."""


def spec(kind: str, **given: Any) -> EvaluatorSpec:
    return EvaluatorSpec(kind, kind, settings={"reference": "reference", **given})


def measured(of: EvaluatorSpec, output: str, references: Sequence[str]) -> Measure:
    """What the evaluator has its process compute."""
    kind = EVALUATORS[of.kind]
    effective = kind.parts(settings_of(kind.settings, of.settings, "evaluator"), Context())
    written: Any = effective["settings"]
    left_out = ("reference", "output", "unicode_form", "threshold")
    options = {name: value for name, value in written.items() if name not in left_out}
    return measure(of.kind, output, references, options, PROCESSOR_SECONDS)


def check_equal(
    of: EvaluatorSpec, pairs: Sequence[Pair], chosen: set[int], sentence: Own, corpus: Own
) -> None:
    """Each pair has the library's score; the sums of any of them have its corpus score."""
    found = [measured(of, output, [reference]) for output, reference in pairs]
    for pair, one in zip(pairs, found, strict=True):
        assert one.problem is None
        assert one.score == sentence([pair])
    picked = sorted(number for number in chosen if number < len(pairs)) or [0]
    statistics = [found[number].statistics for number in picked]
    sums = [sum(column) for column in zip(*statistics, strict=True)]
    assert corpus_score(of, sums) == corpus([pairs[number] for number in picked])


def outputs(pairs: Sequence[Pair]) -> list[str]:
    return [output for output, _ in pairs]


def references(pairs: Sequence[Pair]) -> list[str]:
    return [reference for _, reference in pairs]


SUBSETS = st.sets(st.integers(0, 7))


@settings(max_examples=EXAMPLES, deadline=None)
@given(corpora(), SUBSETS, st.booleans())
def test_bleu_is_sacrebleus(corpus: tuple[str, list[Pair]], chosen: set[int], lower: bool) -> None:
    script, pairs = corpus
    tokenize = {"chinese": "zh", "japanese": "ja-mecab", "thai": "char"}.get(script, "13a")

    def sentence(of: Sequence[Pair]) -> float:
        [(output, reference)] = of
        scored = sacrebleu.sentence_bleu(
            output, [reference], tokenize=tokenize, lowercase=lower, use_effective_order=True
        )
        return float(scored.score)

    def whole(of: Sequence[Pair]) -> float:
        metric = BLEU(tokenize=tokenize, lowercase=lower)
        return float(metric.corpus_score(outputs(of), [references(of)]).score)

    asked = spec("bleu", language=LANGUAGES[script], ignore_case=lower)
    check_equal(asked, pairs, chosen, sentence, whole)


@settings(max_examples=EXAMPLES, deadline=None)
@given(corpora(), SUBSETS, st.sampled_from([0, 2]), st.booleans())
def test_chrf_is_sacrebleus(
    corpus: tuple[str, list[Pair]], chosen: set[int], word_order: int, lower: bool
) -> None:
    script, pairs = corpus
    metric = CHRF(word_order=word_order, lowercase=lower)

    def own(of: Sequence[Pair]) -> float:
        return float(metric.corpus_score(outputs(of), [references(of)]).score)

    asked = spec("chrf", language=LANGUAGES[script], word_order=word_order, ignore_case=lower)
    check_equal(asked, pairs, chosen, own, own)


@settings(max_examples=EXAMPLES // 5, deadline=None)  # it takes long, in sacrebleu itself
@given(corpora(), SUBSETS, st.booleans())
def test_ter_is_sacrebleus(
    corpus: tuple[str, list[Pair]], chosen: set[int], punctuation: bool
) -> None:
    script, pairs = corpus
    metric = TER(no_punct=punctuation)
    tokenize = {"chinese": "zh", "japanese": "ja-mecab", "thai": "char"}.get(script)
    cut: Any = BLEU(tokenize=tokenize).tokenizer if tokenize else str

    def own(of: Sequence[Pair]) -> float:
        scored = metric.corpus_score(
            [cut(one) for one in outputs(of)], [[cut(one) for one in references(of)]]
        )
        return float(scored.score)

    asked = spec("ter", language=LANGUAGES[script], ignore_punctuation=punctuation)
    check_equal(asked, pairs, chosen, own, own)


@settings(max_examples=EXAMPLES, deadline=None)
@given(corpora(), SUBSETS)
def test_wer_is_jiwers(corpus: tuple[str, list[Pair]], chosen: set[int]) -> None:
    script, pairs = corpus

    def own(of: Sequence[Pair]) -> float:
        if script in ("latin", "cyrillic"):
            return jiwer.wer(references(of), outputs(of))
        # Where words do not stand apart, the characters are counted and the spaces are not.
        without = [["".join(one.split()) for one in side] for side in (references(of), outputs(of))]
        return jiwer.cer(without[0], without[1])

    check_equal(spec("wer", language=LANGUAGES[script]), pairs, chosen, own, own)


@settings(max_examples=EXAMPLES, deadline=None)
@given(corpora(), SUBSETS)
def test_cer_is_jiwers(corpus: tuple[str, list[Pair]], chosen: set[int]) -> None:
    script, pairs = corpus

    def own(of: Sequence[Pair]) -> float:
        if script in ("latin", "cyrillic"):
            return jiwer.cer(references(of), outputs(of))
        without = [["".join(one.split()) for one in side] for side in (references(of), outputs(of))]
        return jiwer.cer(without[0], without[1])

    check_equal(spec("cer", language=LANGUAGES[script]), pairs, chosen, own, own)


def test_several_references_are_those_of_sacrebleu() -> None:
    output = "The dog bit the man ."
    several = ["The dog bit the man.", "It was the dog that bit the man.", "The man was bitten."]
    streams = [[one] for one in several]
    assert measured(spec("bleu"), output, several).score == pytest.approx(
        sacrebleu.sentence_bleu(output, several).score
    )
    assert measured(spec("chrf"), output, several).score == pytest.approx(
        CHRF().corpus_score([output], streams).score
    )
    assert measured(spec("ter"), output, several).score == pytest.approx(
        TER().corpus_score([output], streams).score
    )


@pytest.mark.parametrize("smooth", ["exp", "floor", "add-k", "none"])
def test_every_smoothing_of_bleu_is_sacrebleus(smooth: Any) -> None:
    pairs = [("a b c d e", "a b c e d"), ("one two", "one three two")]
    asked = spec("bleu", smooth=smooth)
    found = [measured(asked, output, [reference]) for output, reference in pairs]
    for (output, reference), one in zip(pairs, found, strict=True):
        own = sacrebleu.sentence_bleu(output, [reference], smooth_method=smooth)
        assert one.score == pytest.approx(own.score)
    sums = [sum(column) for column in zip(*(one.statistics or () for one in found), strict=True)]
    whole = BLEU(smooth_method=smooth).corpus_score(outputs(pairs), [references(pairs)])
    assert corpus_score(asked, sums) == pytest.approx(whole.score)


def test_an_empty_corpus_has_no_score() -> None:
    assert corpus_score(spec("bleu"), [0.0] * 10) is None
    assert corpus_score(spec("wer"), [0.0] * 4) is None
    assert corpus_score(spec("exact"), []) is None
    assert corpus_score(spec("wer"), []) is None


def test_a_machine_without_the_library_has_no_corpus_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    assert corpus_score(spec("bleu"), [6.0, 6.0, 5, 3, 2, 1, 6, 5, 4, 3]) is None


def test_sums_may_be_a_row_of_an_array() -> None:
    counted = [6, 6, 5, 3, 2, 1, 6, 5, 4, 3]
    row = np.array(counted, dtype=np.float64)
    assert corpus_score(spec("bleu"), row.tolist()) == corpus_score(spec("bleu"), counted)


def test_texts_that_tokenizers_remember_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    from dragoman.lab.scoring import translation

    monkeypatch.setattr(translation, "_KEPT_CHARACTERS", 1_000)
    for number in range(200):
        measured(spec("bleu"), f"sentence {number}", ["a sentence with some words"])
    assert Tokenizer13a.__call__.cache_info().currsize < 60
