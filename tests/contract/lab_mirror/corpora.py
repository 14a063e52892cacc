"""Experiments over texts in five scripts, scored as evaluator processes score them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any

import jiwer
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from tests.contract.lab_mirror.world import Scored, World
from tests.unit.lab.scoring.texts import ALPHABETS, LANGUAGES

from dragoman.lab.evaluators import EVALUATORS
from dragoman.lab.evaluators.measured import PROCESSOR_SECONDS
from dragoman.lab.model import EvaluatorSpec, ExperimentId, JsonValue
from dragoman.lab.plugins import Context, settings_of
from dragoman.lab.scoring import Measure, measure

Pair = tuple[str, str]
"""An output and its reference."""
Own = Callable[[Sequence[Pair]], float]
"""The score of a corpus, as the library itself gives it."""
SEED = 20_261_115
KINDS = ("exact", "bleu", "chrf", "ter", "wer", "cer")
_TOKENIZERS = {"chinese": "zh", "japanese": "ja-mecab", "thai": "char"}


async def corpus_of(
    at: World, script: str, items: int
) -> tuple[ExperimentId, tuple[EvaluatorSpec, ...], dict[str, Own]]:
    """An experiment with random texts, its evaluators, and the libraries' own scores by name."""
    evaluators = evaluators_of(script)
    experiment_id = await at.new_experiment(0, evaluators=evaluators)
    await at.add_scored(experiment_id, KINDS, _scored(script, items))
    return experiment_id, evaluators, _libraries(script)


@cache
def _scored(script: str, items: int) -> list[Scored]:
    """Random texts with their scores, computed once for all mirrors."""
    random = Random(f"{SEED} {script}")
    scored: list[Scored] = []
    for number in range(items):
        output, reference = _pair(random, ALPHABETS[script])
        found = [_measured(one, output, reference) for one in evaluators_of(script)[1:]]
        scores = [(float(output == reference), None), *((m.score, m.statistics) for m in found)]
        turn = {"reference": reference, "domain": ("news", "chat", "law")[number % 3]}
        turn |= {"part": "few" if number % 10 == 0 else "most", "speaker": str(number * 7 // 8)}
        scored.append(Scored(turn, {"output": output}, scores))
    return scored


def evaluators_of(script: str) -> tuple[EvaluatorSpec, ...]:
    given: dict[str, JsonValue] = {"reference": "reference", "language": LANGUAGES[script]}
    return tuple(
        EvaluatorSpec(kind, kind, settings={"reference": "reference"} if kind == "exact" else given)
        for kind in KINDS
    )


def random_corpus_filter(random: Random) -> dict[str, Any]:
    """One that some of the rows pass."""
    one = {"field": "input.domain", "op": "=", "value": random.choice(("news", "chat", "law"))}
    name, most = random.choice((("chrf", 100), ("wer", 1), ("ter", 100)))
    op = random.choice(("<", ">="))
    other = {"field": f"score.{name}", "op": op, "value": random.random() * most}
    return random.choice(({"and": [one, other]}, {"or": [one, other]}, {"not": one}, other))


def _pair(random: Random, alphabet: str) -> Pair:
    def word() -> str:
        letters = [one for one in alphabet if one.isalpha()]
        return random.choice(letters) + "".join(random.choices(alphabet, k=random.randrange(6)))

    reference = [word() for _ in range(random.randrange(1, 10))]
    kept = [one for one in reference if random.random() < 0.8]
    if random.random() < 0.3:
        random.shuffle(kept)
    kept += [word() for _ in range(random.randrange(3))]
    return " ".join(kept), " ".join(reference)


def _measured(of: EvaluatorSpec, output: str, reference: str) -> Measure:
    kind = EVALUATORS[of.kind]
    effective: Any = kind.parts(settings_of(kind.settings, of.settings, "evaluator"), Context())
    left_out = ("reference", "output", "unicode_form", "threshold")
    options = {name: value for name, value in effective["settings"].items() if name not in left_out}
    found = measure(of.kind, output, [reference], options, PROCESSOR_SECONDS)
    assert found.problem is None
    return found


def _libraries(script: str) -> dict[str, Own]:
    tokenizer = _TOKENIZERS.get(script)
    cut: Any = BLEU(tokenize=tokenizer).tokenizer if tokenizer else str

    def of(metric: Any, prepare: Callable[[str], str] = str) -> Own:
        return lambda pairs: float(
            metric.corpus_score(
                [prepare(output) for output, _ in pairs], [[prepare(one) for _, one in pairs]]
            ).score
        )

    def errors(by_words: bool) -> Own:
        def own(pairs: Sequence[Pair]) -> float:
            outputs, references = [one for one, _ in pairs], [one for _, one in pairs]
            if tokenizer is None:
                return (jiwer.wer if by_words else jiwer.cer)(references, outputs)
            # Where words do not stand apart, the characters are counted and the spaces are not.
            return jiwer.cer(
                ["".join(one.split()) for one in references],
                ["".join(one.split()) for one in outputs],
            )

        return own

    return {
        "bleu": of(BLEU(tokenize=tokenizer or "13a")),
        "chrf": of(CHRF()),
        "ter": of(TER(), cut),
        "wer": errors(by_words=True),
        "cer": errors(by_words=False),
    }
