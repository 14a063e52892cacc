"""Agreement in words."""

from __future__ import annotations

from dragoman.lab.annotations.calibration import LEAST_ROWS, is_calibrated
from dragoman.lab.model import Agreement, AnnotatedName, Calibration


def calibration_told(found: Calibration | None) -> str:
    """How far a judge was measured against people."""
    if found is None:
        return (
            f"not calibrated; annotate at least {LEAST_ROWS} of its rows to know how far it agrees "
            "with people"
        )
    told = f"agreement with people ({found.annotation}): {agreement_told(found)}"
    if is_calibrated(found):
        return told
    return f"not calibrated, which takes {LEAST_ROWS} rows; {told}"


def agreement_told(found: Agreement | Calibration) -> str:
    """How far an evaluator and people agree."""
    told = [f"{word} {value:.3g}" for word, value in _figures(found) if value is not None]
    return f"{', '.join(told) or 'not known'} over {_rows(found.rows)}"


def is_known(found: Agreement | Calibration) -> bool:
    """Whether there is any figure of how far an evaluator and people agree."""
    return any(value is not None for _, value in _figures(found))


def _figures(found: Agreement | Calibration) -> tuple[tuple[str, float | None], ...]:
    return (
        ("kappa", found.kappa),
        ("same label", found.same_label),
        ("Pearson", found.pearson),
        ("Spearman", found.spearman),
        ("alpha", found.alpha),
    )


def annotated_told(said: AnnotatedName) -> str:
    """How many people judged how many rows under a name."""
    people = "1 person" if said.annotators == 1 else f"{said.annotators:,} people"
    alpha = "" if said.alpha is None else f", alpha between them {said.alpha:.3g}"
    return f"{people} on {_rows(said.rows)}{alpha}"


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"
