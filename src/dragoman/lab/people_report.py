"""What people said of the rows of an experiment, in words."""

from __future__ import annotations

import msgspec

from dragoman.lab.annotations import LEAST_ROWS, is_calibrated
from dragoman.lab.model import Agreement, AnnotatedName, Calibration
from dragoman.lab.results import Aggregates


def people_lines(reached: Aggregates) -> list[str]:
    """How far judges were measured, and how far evaluators and people agree, a line each."""
    lines = [
        judge_line(name, score.calibration)
        for name, score in reached.scores.items()
        if not isinstance(score.calibration, msgspec.UnsetType)
    ]
    people = reached.annotations
    if isinstance(people, msgspec.UnsetType):
        return lines
    for name, said in people.items():
        lines.append(_annotated(name, said))
        lines += [f"  {score}: {_agreement(found)}" for score, found in said.evaluators.items()]
    return lines


def judge_line(score: str, found: Calibration | None) -> str:
    """How far a judge was measured against people."""
    if found is None:
        return (
            f"judge {score}: not calibrated; annotate at least {LEAST_ROWS} of its rows to know "
            "how far it agrees with people"
        )
    told = f"agreement with people ({found.annotation}): {_agreement(found)}"
    if is_calibrated(found):
        return f"judge {score}: {told}"
    return f"judge {score}: not calibrated, {LEAST_ROWS} rows are needed; {told}"


def _annotated(name: str, said: AnnotatedName) -> str:
    people = "1 person" if said.annotators == 1 else f"{said.annotators:,} people"
    rows = "1 row" if said.rows == 1 else f"{said.rows:,} rows"
    alpha = "" if said.alpha is None else f", alpha between them {said.alpha:.3g}"
    return f"annotations {name}: {people} on {rows}{alpha}"


def _agreement(found: Agreement | Calibration) -> str:
    figures = (
        ("kappa", found.kappa),
        ("same label", found.same_label),
        ("Pearson", found.pearson),
        ("Spearman", found.spearman),
        ("alpha", found.alpha),
    )
    told = [f"{word} {value:.3g}" for word, value in figures if value is not None]
    rows = "1 row" if found.rows == 1 else f"{found.rows:,} rows"
    return f"{', '.join(told) or 'not known'} over {rows}"
