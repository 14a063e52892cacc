"""The statistics of a comparison. Needs the extra `lab`."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

import msgspec
import numpy as np

from dragoman.lab.comparison.compared import Change, Compared, Finding, LeftOut, Missing, WorstTurn
from dragoman.lab.comparison.numbers import rounded
from dragoman.lab.comparison.run_reader import Seen, Series, Unit
from dragoman.lab.comparison.verdicts import ALPHA
from dragoman.lab.statistics import (
    Difference,
    Floats,
    compare_corpora,
    compare_means,
    holm,
    of_each,
)
from dragoman.lab.turn_outcomes import TurnOutcomeKind

SEED = 20_260_401
"""The same rows give the same interval and the same p, whenever they are compared."""

ChangeT = TypeVar("ChangeT", bound=Change)
_SAME = 1e-12

CorpusFunction = Callable[[Sequence[float]], float | None]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of two runs, to be compared."""

    name: str
    baseline: Seen
    other: Seen
    values: tuple[Series, Series]
    higher_is_better: bool | None
    corpus: CorpusFunction | None = None
    is_score: bool = True
    """Whether an evaluator gave it; else the target reported it."""


def answer(question: Question, cluster: str | None) -> Compared:
    """Compare one figure; its p-values are corrected later, when all of them are known."""
    one, other = question.values
    # In the order of their contents, so that the same rows draw the same lots in every version.
    shared = sorted(unit for unit in question.baseline.item_ids if unit in question.other.item_ids)
    paired = [unit for unit in shared if unit in one.counts and unit in other.counts]
    clusters = _clusters(question, paired, cluster)
    better = question.higher_is_better
    first = np.array([one.sums[unit] / one.counts[unit] for unit in paired])
    second = np.array([other.sums[unit] / other.counts[unit] for unit in paired])
    found = compare_means(
        first,
        second,
        np.random.default_rng(SEED),
        clusters=clusters,
        higher_is_better=better is not False,
    )
    change = _change(found, _mean(first), _mean(second))
    return Compared(
        **msgspec.structs.asdict(change),
        higher_is_better=better,
        left_out=_left_out(question, shared),
        worst=_worst(paired, first, second, better),
        in_words=_in_words(question.name, change, clusters is not None),
        corpus=_corpus(question, paired, clusters, (first, second)),
    )


def _worst(
    paired: Sequence[Unit], first: Floats, second: Floats, better: bool | None
) -> WorstTurn | None:
    if better is None or not paired:
        return None
    gains = second - first if better else first - second
    place = int(np.argmin(gains))
    if gains[place] >= 0:
        return None
    return WorstTurn(*paired[place], float(first[place]), float(second[place]))


def with_corrected(found: Sequence[Compared]) -> list[Compared]:
    """The same with p-values corrected for each other, and what the differences then amount to."""
    p_values = iter(holm([change.p_alone for change in _asked(found)]))
    corrected = []
    for one in found:
        own = _with_p(one, p_values, one.higher_is_better)
        corpus = one.corpus
        if corpus is not None:
            corpus = _with_p(corpus, p_values, one.higher_is_better)
        corrected.append(msgspec.structs.replace(own, corpus=corpus))
    return corrected


def questions_in(found: Sequence[Compared]) -> int:
    """How many p-values there are."""
    return sum(change.p_alone is not None for change in _asked(found))


def _asked(found: Sequence[Compared]) -> list[Change]:
    """The differences that could be significant.

    Where every turn is the same in both runs, no test can ever find a difference, so it makes no
    false alarm more likely.
    """
    every = (change for one in found for change in (one, one.corpus) if change is not None)
    return [change for change in every if change.finding is not Finding.EQUAL]


def _with_p(change: ChangeT, p_values: Iterator[float | None], better: bool | None) -> ChangeT:
    p = change.p_alone if change.finding is Finding.EQUAL else next(p_values)
    finding = change.finding
    if p is not None and p < ALPHA and change.delta:
        finding = Finding.DIFFERENT
        if better is not None:
            finding = Finding.BETTER if (change.delta > 0) is better else Finding.WORSE
    return msgspec.structs.replace(change, p=p, finding=finding)


def _change(found: Difference, baseline: float | None, other: float | None) -> Change:
    # Texts may have the same scores one by one, and not together.
    equal = found.count > 0 and found.wins == found.losses == 0 and abs(found.delta) < _SAME
    return Change(
        baseline=baseline,
        other=other,
        delta=_known(found.delta),
        ci95=None if found.ci95 is None else _bounds(found.ci95.low, found.ci95.high),
        p=None,
        p_alone=_known(found.p),
        effect_size=_known(found.effect),
        wins=found.wins,
        losses=found.losses,
        ties=found.ties,
        detectable=_known(found.detectable),
        standard_error=_known(found.error),
        paired=found.count,
        units=found.units,
        finding=Finding.EQUAL if equal else Finding.UNCLEAR,
    )


def _corpus(
    question: Question,
    paired: Sequence[Unit],
    clusters: Sequence[Hashable] | None,
    item_scores: tuple[Floats, Floats],
) -> Change | None:
    """The difference of the scores of all texts together; None where there is no such score."""
    score = question.corpus
    one, other = question.values
    if score is None or not paired:
        return None
    if any(unit not in series.statistics for series in (one, other) for unit in paired):
        # A score that was stored without its statistics has no place in a corpus.
        return None
    first, second = (
        np.array([[s / series.counts[unit] for s in series.statistics[unit]] for unit in paired])
        for series in (one, other)
    )
    better = question.higher_is_better
    found = compare_corpora(
        first,
        second,
        of_each(score),
        np.random.default_rng(SEED),
        item_scores=item_scores,
        clusters=clusters,
        higher_is_better=better is not False,
    )
    totals = (score(sums.sum(axis=0).tolist()) for sums in (first, second))
    before, after = totals
    return _change(found, before, after)


def _clusters(
    question: Question, paired: Sequence[Unit], cluster: str | None
) -> list[Hashable] | None:
    """What is drawn together: a column's value, or the turns of one conversation."""
    if cluster is None:
        if question.baseline.has_conversations or question.other.has_conversations:
            return [content_id for content_id, _ in paired]
        return None
    values = question.baseline.clusters
    # An item without a value belongs to no other.
    return [
        unit if values.get(unit) is None else msgspec.json.encode(values[unit]) for unit in paired
    ]


def _left_out(question: Question, shared: Sequence[Unit]) -> LeftOut:
    baseline, other = question.baseline, question.other
    return LeftOut(
        only_in_baseline=len(baseline.item_ids) - len(shared),
        only_in_other=len(other.item_ids) - len(shared),
        baseline=_missing(question, baseline, question.values[0], shared),
        other=_missing(question, other, question.values[1], shared),
    )


def _missing(question: Question, seen: Seen, values: Series, shared: Sequence[Unit]) -> Missing:
    reasons = seen.reasons.get(question.name, {}) if question.is_score else seen.unmeasured
    counts = dict.fromkeys(Missing.__struct_fields__, 0)
    for unit in shared:
        if unit not in values.counts:
            counts[reasons.get(unit, TurnOutcomeKind.UNSCORED)] += 1
    return Missing(**counts)


def _in_words(name: str, change: Change, clustered: bool) -> str:
    if change.paired == 0:
        return f"No turn has {name} in both runs."
    if change.detectable is None:
        return f"One pair cannot tell a difference in {name} from chance."
    units = f"{change.paired:,} items"
    if clustered:
        units += f" in {change.units:,} groups"
    if change.finding is Finding.EQUAL:
        return f"Each of {change.paired:,} items has the same {name} in both runs."
    return (
        f"With {units} a difference below {rounded(change.detectable)} {name} cannot be told from "
        "chance."
    )


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _known(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _bounds(low: float, high: float) -> tuple[float, float] | None:
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None
