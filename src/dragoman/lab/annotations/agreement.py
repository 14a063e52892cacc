"""How far evaluators agree with people, and people with each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from statistics import fmean
from typing import Any

import msgspec

from dragoman.lab.model import Agreement, AnnotatedName, Annotation, ScoreCell

_EVALUATOR = "\0evaluator"
"""What the evaluator is called among the judges of a row; no annotator can be called so."""


class JudgedRow(msgspec.Struct, frozen=True):
    """A row that people judged, and what evaluators said of it."""

    annotations: Sequence[Annotation]
    scores: Mapping[str, ScoreCell]


def agreement_of(rows: Sequence[JudgedRow], evaluators: Sequence[str]) -> dict[str, AnnotatedName]:
    """What people said under each name, with the agreement of each evaluator of these scores.

    Empty without the extra `lab`, which computes agreement.
    """
    if not rows or find_spec("scipy") is None:  # importing it takes a second
        return {}
    statistics = import_module("dragoman.lab.statistics")
    names = sorted({one.name for row in rows for one in row.annotations})
    return {name: _of_name(name, rows, evaluators, statistics) for name in names}


def _of_name(
    name: str, rows: Sequence[JudgedRow], evaluators: Sequence[str], statistics: Any
) -> AnnotatedName:
    said = [
        ([one for one in row.annotations if one.name == name], row.scores)
        for row in rows
        if any(one.name == name for one in row.annotations)
    ]
    annotators = {one.annotator for people, _ in said for one in people}
    return AnnotatedName(
        rows=len(said),
        annotations=sum(len(people) for people, _ in said),
        annotators=len(annotators),
        alpha=_alpha([(people, None) for people, _ in said], statistics),
        evaluators={
            score: found
            for score in evaluators
            if (
                found := _with_evaluator(
                    [(people, scores.get(score)) for people, scores in said], statistics
                )
            )
            is not None
        },
    )


def _with_evaluator(
    rows: Sequence[tuple[Sequence[Annotation], ScoreCell | None]], statistics: Any
) -> Agreement | None:
    """The agreement with one evaluator; None where nothing can be compared."""
    both = [(people, cell) for people, cell in rows if cell is not None]
    labels = [
        (label, cell.label)
        for people, cell in both
        if cell.label is not None and (label := consensus(people)) is not None
    ]
    scores = [
        (fmean(given), cell.score)
        for people, cell in both
        if cell.score is not None
        and (given := [one.score for one in people if one.score is not None])
    ]
    if not labels and not scores:
        return None
    pearson, spearman = (None, None)
    if scores:
        numpy = import_module("numpy")
        mine, theirs = (numpy.asarray(column, dtype=float) for column in zip(*scores, strict=True))
        pearson, spearman = statistics.correlation(mine, theirs)
    people_differ = len({one.annotator for people, _ in both for one in people}) > 1
    return Agreement(
        rows=sum(_is_compared(people, cell) for people, cell in both),
        same_label=_share(labels),
        kappa=statistics.cohen_kappa(*zip(*labels, strict=True)) if labels else None,
        pearson=pearson,
        spearman=spearman,
        alpha=_alpha(both, statistics) if people_differ else None,
    )


def consensus(people: Sequence[Annotation]) -> str | None:
    """The label that most of them give; None where there is none, or a tie."""
    counts = Counter(one.label for one in people if one.label is not None).most_common(2)
    if not counts or (len(counts) > 1 and counts[0][1] == counts[1][1]):
        return None
    return counts[0][0]


def _is_compared(people: Sequence[Annotation], cell: ScoreCell) -> bool:
    by_label = cell.label is not None and consensus(people) is not None
    return by_label or (cell.score is not None and any(one.score is not None for one in people))


def _share(labels: Sequence[tuple[str, str]]) -> float | None:
    return sum(one == other for one, other in labels) / len(labels) if labels else None


def _alpha(
    rows: Sequence[tuple[Sequence[Annotation], ScoreCell | None]], statistics: Any
) -> float | None:
    """Krippendorff's alpha of everyone who judged these rows: by labels where people give them."""
    by_label = any(one.label is not None for people, _ in rows for one in people)
    units: list[dict[str, float | str]] = []
    for people, cell in rows:
        unit: dict[str, float | str] = {}
        for one in people:
            value = one.label if by_label else one.score
            if value is not None:
                unit[one.annotator] = value
        own = None if cell is None else cell.label if by_label else cell.score
        if own is not None:
            unit[_EVALUATOR] = own
        units.append(unit)
    found: float | None = statistics.krippendorff_alpha(units, interval=not by_label)
    return found
